/*
 * moe_layer: a mixture-of-experts layer, forward and backward, against a dense computation.
 *
 *     cc moe_layer.c -o moe_layer $(pkg-config --cflags --libs weir)
 *     ./moe_layer
 */
#include <stdio.h>
#include <weir/moe.h>
enum { RANKS = 4, LOCAL = 2, EXPERTS = 8, K = 2, TOKENS = 16, HIDDEN = 64, ROWS = 128 };
typedef float token_rows[TOKENS][HIDDEN], expert_rows[ROWS][HIDDEN];
static token_rows x, out, d_out, d_x;            /* of this rank's tokens */
static expert_rows received, outputs, gradients; /* of the experts' rows on this rank */
static float weights[TOKENS][K], d_weights[TOKENS][K], row_weights[ROWS], d_row_weights[ROWS];
static int32_t experts[TOKENS][K], counts[LOCAL], offsets[LOCAL];
static void make_input(int rank)
{
    for (int t = 0; t < TOKENS; t++) {
        for (int i = 0; i < HIDDEN; i++)
            x[t][i] = (float)((rank + t + i) % 8), d_out[t][i] = (float)((3 * t + i) % 4);
        for (int k = 0; k < K; k++)
            experts[t][k] = (rank + 3 * t + 5 * k) % EXPERTS, weights[t][k] = k ? 0.25f : 0.75f;
    }
}

static weir_status forward(weir_moe *group, int first)
{
    weir_moe_dispatch_args d = WEIR_MOE_DISPATCH_ARGS_INIT;
    weir_moe_combine_args c = WEIR_MOE_COMBINE_ARGS_INIT;
    d.tokens = TOKENS, d.x = x, d.topk_experts = experts, d.topk_weights = weights[0];
    d.rows = received, d.rows_bytes = sizeof received, d.row_weights = row_weights;
    d.expert_counts = counts, d.expert_offsets = offsets;
    weir_status status = weir_moe_dispatch(group, &d);
    for (int e = 0; e < LOCAL; e++)
        for (int r = offsets[e]; r < offsets[e] + counts[e]; r++)
            for (int i = 0; i < HIDDEN; i++)
                outputs[r][i] = received[r][i] * (float)(first + e + 1); /* the expert */
    c.rows = outputs, c.weights = weights[0], c.out = out, c.out_bytes = sizeof out;
    return status == WEIR_OK ? weir_moe_combine(group, &c) : status;
}

/* Gradients of out go to the experts by the same routing; those of the rows come back. */
static weir_status backward(weir_moe *group, int first)
{
    weir_moe_dispatch_args d = WEIR_MOE_DISPATCH_ARGS_INIT;
    weir_moe_combine_args c = WEIR_MOE_COMBINE_ARGS_INIT;
    d.tokens = TOKENS, d.x = d_out, d.rows = gradients, d.rows_bytes = sizeof gradients;
    weir_status status = weir_moe_dispatch(group, &d);
    for (int e = 0; e < LOCAL; e++)
        for (int r = offsets[e]; r < offsets[e] + counts[e]; r++)
            for (int i = 0; i < HIDDEN; i++) {
                d_row_weights[r] += gradients[r][i] * outputs[r][i];
                gradients[r][i] *= row_weights[r] * (float)(first + e + 1);
            }
    c.rows = gradients, c.row_weight_grads = d_row_weights, c.weight_grads = d_weights[0];
    c.out = d_x, c.out_bytes = sizeof d_x;
    return status == WEIR_OK ? weir_moe_combine(group, &c) : status;
}

static int wrong_values(void)
{
    int wrong = 0;
    for (int t = 0; t < TOKENS; t++) {
        float factor = 0, dot = 0;
        for (int k = 0; k < K; k++)
            factor += weights[t][k] * (float)(experts[t][k] + 1);
        for (int i = 0; i < HIDDEN; dot += d_out[t][i] * x[t][i], i++)
            wrong += (out[t][i] != factor * x[t][i]) + (d_x[t][i] != factor * d_out[t][i]);
        for (int k = 0; k < K; k++)
            wrong += d_weights[t][k] != dot * (float)(experts[t][k] + 1);
    }
    return wrong;
}

static int rank_main(weir_boot *boot, void *argument)
{
    weir_comm_config host = WEIR_COMM_CONFIG_INIT;
    weir_moe_config shape = WEIR_MOE_CONFIG_INIT;
    weir_comm *comm = argument; /* NULL */
    weir_moe *group = NULL;
    host.backend = WEIR_BACKEND_HOST;
    shape.experts = EXPERTS, shape.topk = K, shape.max_tokens = TOKENS;
    shape.hidden = HIDDEN, shape.dtype = WEIR_FLOAT;
    make_input(weir_boot_rank(boot));
    weir_status status = weir_comm_create(boot, &host, &comm);
    if (status == WEIR_OK && (status = weir_moe_create(comm, &shape, &group)) == WEIR_OK &&
        (status = forward(group, LOCAL * weir_boot_rank(boot))) == WEIR_OK)
        status = backward(group, LOCAL * weir_boot_rank(boot));
    printf("rank %d: %d wrong values\n", weir_boot_rank(boot), wrong_values());
    weir_moe_free(group);
    weir_comm_destroy(comm);
    return status != WEIR_OK || wrong_values();
}

int main(void)
{
    int codes[RANKS];
    return weir_boot_fork_run(RANKS, rank_main, NULL, 0, codes) != WEIR_OK || codes[0] ||
           codes[1] || codes[2] || codes[3];
}
