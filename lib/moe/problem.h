/* Kinds of calls, and why a rank cannot take part in one; for the host and for kernels. */
#ifndef WEIR_MOE_PROBLEM_H
#define WEIR_MOE_PROBLEM_H

typedef enum moe_kind { MOE_DISPATCH, MOE_COMBINE } moe_kind;

/* The values of a problem are what its message needs. */
typedef enum moe_problem {
    MOE_NO_PROBLEM,
    MOE_BAD_EXPERT,  /* token, choice, expert */
    MOE_BAD_TOKENS,  /* tokens, maximum */
    MOE_BAD_REUSE,   /* tokens, tokens of the routing */
    MOE_NO_ROUTING,  /* handle */
    MOE_BAD_ROWS,    /* bytes, bytes needed */
    MOE_BAD_OUT,     /* bytes, bytes needed */
    MOE_BAD_POINTER, /* index into moe_pointer */
    MOE_BAD_TYPE,    /* the dtype of topk_experts */
    MOE_BAD_MEMORY,  /* rows are not in registered memory, which the group requires */
    MOE_BAD_STREAM,  /* 0: the host has no streams; 1: it is not one of the rank's GPU */
    MOE_BAD_MEMBER,  /* index into moe_pointer: not for this layout */
    MOE_NO_WEIGHTS,  /* a rank that receives weights; this one sends none */
    MOE_OVERFLOW,    /* GPUs: expert or -1, rows, capacity */
    MOE_OTHER_CALL,  /* GPUs: number of the call, two values of moe_what */
    MOE_UNALIGNED,   /* GPUs: index into moe_pointer */
    MOE_BAD_ARGS,    /* size of the caller's structure (0: NULL), size that this version knows */
    MOE_BAD_BUFFER,  /* GPUs: index into moe_pointer; -1: another one */
    MOE_BAD_CAPTURE, /* GPUs of several nodes: the stream is being captured */
} moe_problem;

enum moe_pointer {
    MOE_POINTER_X,
    MOE_POINTER_ROWS,
    MOE_POINTER_SCALES,
    MOE_POINTER_OUT,
    MOE_POINTER_EXPERTS,
    MOE_POINTER_OFFSETS,
    MOE_POINTER_WEIGHTS
};

#endif
