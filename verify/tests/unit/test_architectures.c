/* Which GPUs the kernels of a build serve, by the architectures of make's SM. */
#include "base/gpu_code.h"
#include "verify/tests/support/unit_test.h"

TEST(kernels_serve_gpus_of_their_major_number_and_newer_ones_by_ptx)
{
    static const struct {
        const char *architectures;
        int major, minor, serves;
    } cases[] = {
        {"80 90 100", 8, 0, 1},  {"80 90 100", 8, 9, 1},  {"80 90 100", 9, 0, 1},
        {"80 90 100", 10, 3, 1}, {"80 90 100", 12, 0, 1}, /* the last one's PTX */
        {"80 90 100", 7, 5, 0},  {"90", 8, 0, 0},         {"90", 10, 0, 1},
        {"89", 8, 0, 0},         {"100 80", 9, 0, 1},     {"100", 9, 0, 0},
        {"90a", 9, 0, 1},        {"90a", 10, 0, 0},       {"90 100a", 10, 3, 0},
        {"100f", 10, 3, 1},      {"100f", 12, 0, 0},      {" 80  90 ", 8, 6, 1},
        {"", 1, 0, 1},           {"?", 7, 5, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (weiri_gpu_code_serves(cases[i].architectures, cases[i].major, cases[i].minor) !=
            cases[i].serves)
            fail_msg("SM=\"%s\" on compute capability %d.%d: %d expected", cases[i].architectures,
                     cases[i].major, cases[i].minor, cases[i].serves);
}

int main(void)
{
    return run_all_tests("architectures");
}
