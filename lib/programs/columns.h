/*
 * The columns of a result file (CSV), in their order: the one list for the writers
 * (bench/output/record.c, bench/moe/moe_output.c) and the reader (results/read/). Columns are only
 * added at the end. A new column needs changes in other files too; docs/developer/add-a-column.md
 * lists them.
 */
#ifndef WEIR_PROGRAMS_COLUMNS_H
#define WEIR_PROGRAMS_COLUMNS_H

/* The value of the first column: increased with each change of the list. */
enum { WEIRI_COLUMNS_SCHEMA = 10 };

/* How the fields of a column are written; all but names are decimal numbers, or empty. */
typedef enum weiri_column_form {
    WEIRI_COLUMN_NAME,
    WEIRI_COLUMN_WHOLE,  /* an integer */
    WEIRI_COLUMN_TIME,   /* us, 3 decimals */
    WEIRI_COLUMN_RATE,   /* any real number, such as GB/s: 6 significant digits */
    WEIRI_COLUMN_PERCENT /* 1 decimal */
} weiri_column_form;

/* X(enumerator, name, form) */
#define WEIRI_COLUMNS(X)                                                                           \
    X(SCHEMA, schema, WHOLE)                                                                       \
    X(RUN_ID, run_id, NAME)                                                                        \
    X(UTC, utc, NAME)                                                                              \
    X(HOST, host, NAME)                                                                            \
    X(COLLECTIVE, collective, NAME)                                                                \
    X(BACKEND, backend, NAME)                                                                      \
    X(TRANSPORT, transport, NAME)                                                                  \
    X(NRANKS, nranks, WHOLE)                                                                       \
    X(NNODES, nnodes, WHOLE)                                                                       \
    X(CONTENDER, contender, NAME)                                                                  \
    X(ALGO, algo, NAME)                                                                            \
    X(DTYPE, dtype, NAME)                                                                          \
    X(REDOP, redop, NAME)                                                                          \
    X(ROOT, root, WHOLE)                                                                           \
    X(PLACEMENT, placement, NAME)                                                                  \
    X(BYTES, bytes, WHOLE)                                                                         \
    X(COUNT, count, WHOLE)                                                                         \
    X(ITERS, iters, WHOLE)                                                                         \
    X(MEDIAN_US, median_us, TIME)                                                                  \
    X(MIN_US, min_us, TIME)                                                                        \
    X(MAX_US, max_us, TIME)                                                                        \
    X(P99_US, p99_us, TIME)                                                                        \
    X(CI_LOW_US, ci_low_us, TIME)                                                                  \
    X(CI_HIGH_US, ci_high_us, TIME)                                                                \
    X(ALGBW_GBS, algbw_gbs, RATE)                                                                  \
    X(BUSBW_GBS, busbw_gbs, RATE)                                                                  \
    X(VERIFY, verify, NAME)                                                                        \
    X(WRONG, wrong, WHOLE)                                                                         \
    X(ORACLE, oracle, NAME)                                                                        \
    X(SPECIAL, special, NAME)                                                                      \
    X(DETERMINISM, determinism, NAME)                                                              \
    X(GPU_SAMPLES, gpu_samples, WHOLE)                                                             \
    X(GPU_THROTTLED, gpu_throttled, WHOLE)                                                         \
    X(THROTTLE_REASONS, throttle_reasons, NAME)                                                    \
    X(SM_MHZ, sm_mhz, WHOLE)                                                                       \
    X(MEMORY_MHZ, memory_mhz, WHOLE)                                                               \
    X(POWER_W, power_w, WHOLE)                                                                     \
    X(TEMPERATURE_C, temperature_c, WHOLE)                                                         \
    X(DIST, dist, NAME)                                                                            \
    X(COUNTS, counts, NAME)                                                                        \
    X(CEILING_PCT, ceiling_pct, PERCENT)                                                           \
    X(TOKENS, tokens, WHOLE)                                                                       \
    X(HIDDEN, hidden, WHOLE)                                                                       \
    X(EXPERTS, experts, WHOLE)                                                                     \
    X(TOPK, topk, WHOLE)                                                                           \
    X(LAYOUT, layout, NAME)                                                                        \
    X(DISPATCH_DTYPE, dispatch_dtype, NAME)                                                        \
    X(LINK_BYTES, link_bytes, WHOLE)                                                               \
    X(EXPERT_BYTES, expert_bytes, WHOLE)                                                           \
    X(LAST_RANK, last_rank, WHOLE)                                                                 \
    X(LAST_SHARE, last_share, RATE)                                                                \
    X(SKEW_US, skew_us, TIME)                                                                      \
    X(BUFFERS, buffers, NAME)                                                                      \
    X(MODE, mode, NAME)                                                                            \
    X(GRAPH, graph, WHOLE)                                                                         \
    X(BINDING, binding, NAME)                                                                      \
    X(CORES, cores, RATE)                                                                          \
    X(SETTINGS, settings, NAME)                                                                    \
    X(UNJUDGED, unjudged, NAME)                                                                    \
    X(SPLIT, split, NAME)                                                                          \
    X(GROUP, group, NAME)                                                                          \
    X(SMS, sms, WHOLE)                                                                             \
    X(SMS_BUDGET, sms_budget, NAME)                                                                \
    X(ERR_MAX, err_max, RATE)                                                                      \
    X(ERR_RMS, err_rms, RATE)

#endif
