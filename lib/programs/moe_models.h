/*
 * The layers of well-known models that bench_moe and weir-plan name: hidden size, experts in all,
 * and experts of each token. Only programs use it.
 */
#ifndef WEIR_PROGRAMS_MOE_MODELS_H
#define WEIR_PROGRAMS_MOE_MODELS_H

#include <stddef.h>
#include <string.h>

typedef struct moe_model {
    const char *name;
    int hidden, experts, topk;
} moe_model;

#define MOE_MODEL_NAMES "deepseek-v3, mixtral or qwen3"

/* Returns NULL if there is none of that name. */
static inline const moe_model *moe_model_find(const char *name)
{
    static const moe_model models[] = {
        {"deepseek-v3", 7168, 256, 8}, {"mixtral", 4096, 8, 2}, {"qwen3", 4096, 128, 8}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (!strcmp(name, models[i].name))
            return &models[i];
    return NULL;
}

#endif
