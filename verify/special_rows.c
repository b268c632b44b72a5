/* The rows of special values and their elements as bits: see special.h. */
#include "verify/special.h"

#include "verify/number.h"

/* Elements by name. A minus sign before a name sets the sign bit (integers: the negative). */
enum {
    NONE,
    QUIET,      /* NaN */
    SIGNALLING, /* e4m3 has one NaN only */
    INF,        /* not in e4m3 */
    ZERO,
    QUARTER,
    HALF,
    ONE,
    MORE, /* 1.5 */
    TWO,
    EIGHT,
    LARGEST,
    HALF_STEP, /* half the distance between the largest number and the one below */
    LESS_STEP, /* the number below that */
    NEXT,      /* the number above 1, and three above */
    NEXT3,
    HALF_ULP, /* half the distance between 1 and the number above */
    TINY,     /* the smallest subnormal number, twice and four times it */
    TINY2,
    TINY4,
    SUBNORMAL, /* the largest */
    NORMAL,    /* the smallest, and 1.5 times it */
    NORMAL_MORE,
    ROOT,  /* integers: the square root of 2^bits */
    TOP,   /* the bit that is a sign in signed types, alone */
    LOWER, /* all other bits */
};

enum {
    ADDS = 1 << WEIR_SUM | 1 << WEIR_AVG,
    MULTIPLIES = 1 << WEIR_PROD,
    ORDERS = 1 << WEIR_MAX | 1 << WEIR_MIN
};

typedef struct recipe {
    int ops;
    const char *name;
    int held[WEIRV_SPECIAL_HELD];
} recipe;

static const recipe float_recipes[] = {
    {ADDS, "NaN", {QUIET, MORE, -TWO}},
    {ADDS, "NaN", {-ONE, -SIGNALLING, LARGEST}},
    {ADDS, "NaN and infinity", {INF, -QUIET, -ONE}},
    {ADDS, "infinity", {INF, -ONE, MORE}},
    {ADDS, "infinity", {ONE, -LARGEST, -INF}},
    {ADDS, "infinity less infinity", {INF, -INF, ONE}},
    {ADDS, "negative zero", {-ZERO, -ZERO, -ZERO}},
    {ADDS, "zeros of both signs", {-ZERO, ZERO, -ZERO}},
    {ADDS, "zero by cancellation", {MORE, -MORE, -ZERO}},
    {ADDS, "overflow", {LARGEST, LARGEST, ONE}},
    {ADDS, "overflow", {-LARGEST, -ONE, -LARGEST}},
    {ADDS, "overflow of a part", {LARGEST, LARGEST, -LARGEST}},
    {ADDS, "overflow by rounding", {LARGEST, HALF_STEP, -ZERO}},
    {ADDS, "no overflow by rounding", {-LARGEST, -ZERO, -LESS_STEP}},
    {ADDS, "tie to even", {ONE, HALF_ULP, -ZERO}},
    {ADDS, "tie to even", {-HALF_ULP, -ZERO, -NEXT}},
    {ADDS, "subnormal", {TINY, TINY4, TINY2}},
    {ADDS, "subnormal", {-SUBNORMAL, TINY, SUBNORMAL}},
    {ADDS, "subnormal from normal", {NORMAL_MORE, -NORMAL, -ZERO}},
    {ADDS, "normal from subnormal", {-SUBNORMAL, -TINY, -ZERO}},
    {MULTIPLIES, "NaN", {QUIET, ZERO, -TWO}},
    {MULTIPLIES, "NaN", {ONE, -SIGNALLING, INF}},
    {MULTIPLIES, "infinity times zero", {INF, ZERO, -ONE}},
    {MULTIPLIES, "infinity", {-TWO, INF, MORE}},
    {MULTIPLIES, "negative zero", {MORE, -ZERO, TWO}},
    {MULTIPLIES, "negative zero", {-ZERO, -ONE, -ZERO}},
    {MULTIPLIES, "overflow", {LARGEST, -LARGEST, ONE}},
    {MULTIPLIES, "overflow", {TWO, LARGEST, MORE}},
    {MULTIPLIES, "overflow of a part", {LARGEST, TWO, QUARTER}},
    {MULTIPLIES, "rounding", {MORE, -NEXT, ONE}},
    {MULTIPLIES, "rounding", {ONE, NEXT3, MORE}},
    {MULTIPLIES, "subnormal", {NORMAL, -HALF, ONE}},
    {MULTIPLIES, "subnormal", {TWO, TINY, -ONE}},
    {MULTIPLIES, "normal from subnormal", {TWO, -NORMAL, -HALF}},
    {MULTIPLIES, "underflow", {TINY, -HALF, ONE}},
    {MULTIPLIES, "underflow of a part", {TINY, QUARTER, EIGHT}},
    {ORDERS, "NaN", {QUIET, ONE, LARGEST}},
    {ORDERS, "NaN", {-LARGEST, ZERO, -SIGNALLING}},
    {ORDERS, "NaN and infinity", {INF, QUIET, -INF}},
    {ORDERS, "infinity", {LARGEST, INF, ONE}},
    {ORDERS, "infinity", {-ONE, -LARGEST, -INF}},
    {ORDERS, "infinities", {INF, -INF, INF}},
    {ORDERS, "infinity alone", {INF, INF, INF}},
    {ORDERS, "infinity alone", {-INF, -INF, -INF}},
    {ORDERS, "zeros of both signs", {-ZERO, ZERO, -ZERO}},
    {ORDERS, "negative zero", {-ZERO, -ZERO, -ZERO}},
    {ORDERS, "negative zero", {-ONE, -ZERO, -TINY}},
    {ORDERS, "subnormal", {TINY, ZERO, -TINY}},
    {ORDERS, "subnormal", {TINY2, TINY4, TINY}},
    {ORDERS, "subnormal", {-NORMAL, -SUBNORMAL, -TINY2}},
};

static const recipe integer_recipes[] = {
    {ADDS, "wrap at the signed end", {LOWER, ONE, ZERO}},
    {ADDS, "wrap at the signed end", {TOP, -ONE, ZERO}},
    {ADDS, "wrap", {-ONE, TWO, ZERO}},
    {ADDS, "wrap", {TOP, TOP, ONE}},
    {ADDS, "wrap more than once", {LOWER, LOWER, LOWER}},
    {ADDS, "negative sum", {-ONE, -TWO, ZERO}},
    {MULTIPLIES, "wrap", {LOWER, LOWER, TWO}},
    {MULTIPLIES, "wrap", {TOP, -ONE, ONE}},
    {MULTIPLIES, "wrap to zero", {ROOT, ROOT, ONE}},
    {MULTIPLIES, "negative product", {-ONE, TWO, ROOT}},
    {ORDERS, "ends of the range", {TOP, LOWER, ZERO}},
    {ORDERS, "ends of the range", {-ONE, ZERO, ONE}},
    {ORDERS, "ends of the range", {LOWER, -ONE, TOP}},
    {ORDERS, "all negative", {TOP, -ONE, -TWO}},
    {ORDERS, "all positive", {TWO, LOWER, ONE}},
    {ORDERS, "neighbours", {ONE, TWO, ONE}},
    {ORDERS, "neighbours", {-TWO, -ONE, -TWO}},
};

/* 2^power, or 1.5 times it. Bodies are elements without the sign. */
static uint64_t power_of_two(const weirv_format *f, int power, int more)
{
    uint64_t body = (uint64_t)(f->bias + power) << f->mantissa_bits;
    return more ? body | (uint64_t)1 << (f->mantissa_bits - 1) : body;
}

/* The first body that is no finite number: e4m3 uses its highest exponent. */
static uint64_t first_special(weir_dtype dtype, const weirv_format *f)
{
    if (dtype == WEIR_FP8_E4M3)
        return 0x7f;
    return (((uint64_t)1 << f->exponent_bits) - 1) << f->mantissa_bits;
}

/* Half a step below the largest number, whose exponent is its body's. */
static uint64_t half_step(weir_dtype dtype, const weirv_format *f)
{
    int exponent = (int)((first_special(dtype, f) - 1) >> f->mantissa_bits) - f->bias;
    return power_of_two(f, exponent - f->mantissa_bits - 1, 0);
}

/* The elements that depend on the type's bits only. */
static uint64_t edge_of_type(weir_dtype dtype, const weirv_format *f, int name)
{
    uint64_t special = first_special(dtype, f), normal = (uint64_t)1 << f->mantissa_bits;
    switch (name) {
    case QUIET:
        return dtype == WEIR_FP8_E4M3 ? special : special | normal >> 1;
    case SIGNALLING:
        return dtype == WEIR_FP8_E4M3 ? special : special | 1;
    case INF:
        return special;
    case LARGEST:
        return special - 1;
    case HALF_STEP:
        return half_step(dtype, f);
    case LESS_STEP:
        return half_step(dtype, f) - 1;
    case NEXT:
        return power_of_two(f, 0, 0) + 1;
    case NEXT3:
        return power_of_two(f, 0, 0) + 3;
    case HALF_ULP:
        return power_of_two(f, -f->mantissa_bits - 1, 0);
    case TINY:
        return 1;
    case TINY2:
        return 2;
    case TINY4:
        return 4;
    case SUBNORMAL:
        return normal - 1;
    case NORMAL:
        return normal;
    case NORMAL_MORE:
        return normal | normal >> 1;
    default:
        return 0;
    }
}

static uint64_t float_body(weir_dtype dtype, const weirv_format *f, int name)
{
    switch (name) {
    case QUARTER:
        return power_of_two(f, -2, 0);
    case HALF:
        return power_of_two(f, -1, 0);
    case ONE:
        return power_of_two(f, 0, 0);
    case MORE:
        return power_of_two(f, 0, 1);
    case TWO:
        return power_of_two(f, 1, 0);
    case EIGHT:
        return power_of_two(f, 3, 0);
    default:
        return edge_of_type(dtype, f, name);
    }
}

static uint64_t float_element(weir_dtype dtype, const weirv_format *f, int name)
{
    uint64_t sign = (uint64_t)1 << (f->exponent_bits + f->mantissa_bits);
    return name < 0 ? sign | float_body(dtype, f, -name) : float_body(dtype, f, name);
}

static uint64_t integer_element(weir_dtype dtype, int name)
{
    int bits = 8 * (int)weir_dtype_bytes(dtype);
    uint64_t all = UINT64_MAX >> (64 - bits), top = (uint64_t)1 << (bits - 1);
    switch (name) {
    case ROOT:
        return (uint64_t)1 << bits / 2;
    case TOP:
        return top;
    case LOWER:
        return top - 1;
    case ONE:
        return 1;
    case TWO:
        return 2;
    case -ONE:
        return all;
    case -TWO:
        return all - 1;
    default:
        return 0;
    }
}

static int has(weir_dtype dtype, const recipe *from)
{
    for (int i = 0; i < WEIRV_SPECIAL_HELD; i++)
        if (dtype == WEIR_FP8_E4M3 && (from->held[i] == INF || from->held[i] == -INF))
            return 0;
    return 1;
}

void weirv_special_make(weir_dtype dtype, weir_op op, int nranks, weirv_special *special)
{
    const weirv_format *format = weirv_format_of(dtype);
    const recipe *recipes = format ? float_recipes : integer_recipes;
    size_t count = format ? sizeof float_recipes / sizeof *float_recipes
                          : sizeof integer_recipes / sizeof *integer_recipes;
    int neutral = op == WEIR_PROD ? ONE : format ? -ZERO : ZERO;
    special->dtype = dtype;
    special->op = op;
    special->nranks = nranks;
    special->held = nranks < WEIRV_SPECIAL_HELD ? nranks : WEIRV_SPECIAL_HELD;
    special->nrows = 0;
    for (size_t i = 0; i < count; i++) {
        if (!(recipes[i].ops >> op & 1) || !has(dtype, &recipes[i]))
            continue;
        weirv_special_row *row = &special->rows[special->nrows++];
        row->name = recipes[i].name;
        row->nanswers = 0;
        for (int k = 0; k < WEIRV_SPECIAL_HELD; k++)
            row->held[k] = format ? float_element(dtype, format, recipes[i].held[k])
                                  : integer_element(dtype, recipes[i].held[k]);
        row->rest =
            format ? float_element(dtype, format, neutral) : integer_element(dtype, neutral);
    }
}
