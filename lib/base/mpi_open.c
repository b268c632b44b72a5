/* Choice of an MPI library, and the constants of the three ABIs: see mpi_open.h. */
#define _GNU_SOURCE /* dl_iterate_phdr, dlinfo */
#include "base/mpi_open.h"

#include "base/env.h"
#include "base/error.h"
#include "base/job_identity.h"
#include "base/log.h"
#include "base/mpi_names.h"

#include <dlfcn.h>
#include <fnmatch.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

weir_mpi_library weiri_mpi;

/* ------------------------------------------------------------------ the ABIs */

typedef enum mpi_abi { ABI_STANDARD, ABI_MPICH, ABI_OPENMPI, ABI_UNKNOWN } mpi_abi;

/* Whose ABI a library has, by the name of its file; of several in a folder the first is taken. A
 * library's own ABI comes before the standard's: Intel MPI 2021.19 ignores MPI_ERRORS_RETURN in the
 * standard's and ends the job, and MPICH 5.0.2 describes another error there. */
static const struct {
    const char *pattern;
    mpi_abi abi;
} mpi_files[] = {{"libmpi.so.12*", ABI_MPICH},   /* MPICH, Intel MPI, MVAPICH */
                 {"libmpich.so.12*", ABI_MPICH}, /* Debian's MPICH */
                 {"libmpi_*.so.12*", ABI_MPICH}, /* Cray's, one for each compiler */
                 {"libmpi.so.40*", ABI_OPENMPI},
                 {"libmpi_abi.so.1*", ABI_STANDARD}};

/* A constant: its place; its value in the standard's ABI and in MPICH's; in Open MPI's the address
 * of a symbol, or without a symbol the standard's value. */
typedef struct mpi_constant {
    size_t offset;
    weir_mpi_handle standard, mpich;
    const char *symbol;
} mpi_constant;
#define CONSTANT(name, standard, mpich, symbol)                                                    \
    {                                                                                              \
        offsetof(weir_mpi_library, name), standard, mpich, symbol                                  \
    }
static const mpi_constant mpi_constants[] = {
    CONSTANT(COMM_WORLD, 0x101, 0x44000000, "ompi_mpi_comm_world"),
    CONSTANT(ERRORS_RETURN, 0x143, 0x54000001, "ompi_mpi_errors_return"),
    CONSTANT(DATATYPE_NULL, 0x200, 0x0c000000, "ompi_mpi_datatype_null"),
    CONSTANT(BYTE, 0x247, 0x4c00010d, "ompi_mpi_byte"),
    CONSTANT(INT, 0x209, 0x4c000405, "ompi_mpi_int"),
    CONSTANT(INT8_T, 0x240, 0x4c000137, "ompi_mpi_int8_t"),
    CONSTANT(UINT8_T, 0x241, 0x4c00013b, "ompi_mpi_uint8_t"),
    CONSTANT(UINT16_T, 0x249, 0x4c00023c, "ompi_mpi_uint16_t"),
    CONSTANT(INT32_T, 0x250, 0x4c000439, "ompi_mpi_int32_t"),
    CONSTANT(UINT32_T, 0x251, 0x4c00043d, "ompi_mpi_uint32_t"),
    CONSTANT(INT64_T, 0x258, 0x4c00083a, "ompi_mpi_int64_t"),
    CONSTANT(UINT64_T, 0x259, 0x4c00083e, "ompi_mpi_uint64_t"),
    CONSTANT(FLOAT, 0x210, 0x4c00040a, "ompi_mpi_float"),
    CONSTANT(DOUBLE, 0x214, 0x4c00080b, "ompi_mpi_double"),
    CONSTANT(SUM, 0x21, 0x58000003, "ompi_mpi_op_sum"),
    CONSTANT(PROD, 0x24, 0x58000004, "ompi_mpi_op_prod"),
    CONSTANT(MAX, 0x23, 0x58000001, "ompi_mpi_op_max"),
    CONSTANT(MIN, 0x22, 0x58000002, "ompi_mpi_op_min"),
    CONSTANT(IN_PLACE, 1, -1, NULL),
    CONSTANT(STATUS_IGNORE, 0, 1, NULL),
    CONSTANT(PROC_NULL, -3, -1, NULL), /* Open MPI's is -2 */
    CONSTANT(ERR_ARG, 13, 12, NULL),
    CONSTANT(ERR_NO_MEM, 39, 34, NULL),
    CONSTANT(THREAD_FUNNELED, 1024, 1, NULL), /* Open MPI's is 1 as well */
};
enum { CONSTANTS = sizeof mpi_constants / sizeof *mpi_constants };
#define ONE(name) +1
_Static_assert(CONSTANTS == 0 WEIR_MPI_CONSTANTS(ONE), "every constant has a row");

static const struct {
    const char *name;
    size_t offset;
} mpi_functions[] = {
#define FUNCTION(name, arguments) {"MPI_" #name, offsetof(weir_mpi_library, name)},
    WEIR_MPI_FUNCTIONS(FUNCTION)};
enum { FUNCTIONS = sizeof mpi_functions / sizeof *mpi_functions };

/* ------------------------------------------------------------- what was opened */

static struct {
    pthread_mutex_t mutex;
    mpi_abi abi;
    int mapped; /* MPI libraries in the process, with those that this one consists of */
    char file[PATH_MAX], prefix[PATH_MAX]; /* the library; the launcher's installation */
} opened = {.mutex = PTHREAD_MUTEX_INITIALIZER, .abi = ABI_UNKNOWN};

const char *weiri_mpi_file(void)
{
    return opened.file;
}

const char *weiri_mpi_launcher_prefix(void)
{
    return opened.prefix;
}

const char *weiri_mpi_abi(void)
{
    static const char *const names[] = {"standard", "MPICH", "Open MPI", "its own"};
    return names[opened.abi];
}

/* The ABI of a library that is open, by its path or, behind links, its file. */
static mpi_abi mpi_abi_of(const char *path)
{
    char real[PATH_MAX], copy[PATH_MAX];
    const char *const paths[] = {path, realpath(path, real) ? real : path};
    for (size_t i = 0; i < 2; i++) {
        snprintf(copy, sizeof copy, "%s", paths[i]);
        const char *name = basename(copy);
        for (size_t k = 0; k < sizeof mpi_files / sizeof *mpi_files; k++)
            if (fnmatch(mpi_files[k].pattern, name, 0) == 0)
                return mpi_files[k].abi;
    }
    return ABI_UNKNOWN;
}

/* Fills in the structure. A function is looked up in the whole process first, where a preloaded
 * tool may replace it. */
static weir_status mpi_fill(void *handle, const char *path, mpi_abi abi, weir_mpi_library *library)
{
    *library = (weir_mpi_library){.bytes = sizeof *library,
                                  .handle_bytes = abi == ABI_MPICH ? sizeof(int) : sizeof(void *)};
    for (int i = 0; i < FUNCTIONS; i++) {
        void **place = (void **)(void *)((char *)library + mpi_functions[i].offset);
        *place = dlsym(RTLD_DEFAULT, mpi_functions[i].name);
        if (!*place && !(*place = dlsym(handle, mpi_functions[i].name)))
            return weiri_fail(WEIR_ERR_UNSUPPORTED, "%s has no %s; weir needs MPI 3 or later", path,
                              mpi_functions[i].name);
    }
    for (int i = 0; i < CONSTANTS; i++) {
        const mpi_constant *row = &mpi_constants[i];
        weir_mpi_handle value = abi == ABI_MPICH ? row->mpich : row->standard;
        if (abi == ABI_OPENMPI && row->symbol) {
            value = (weir_mpi_handle)dlsym(handle, row->symbol);
            if (!value)
                return weiri_fail(WEIR_ERR_UNSUPPORTED, "%s has no %s, which Open MPI 4 and 5 have",
                                  path, row->symbol);
        }
        memcpy((char *)library + row->offset, &value, sizeof value);
    }
    if (abi == ABI_OPENMPI) {
        library->THREAD_FUNNELED = 1;
        library->PROC_NULL = -2;
    }
    return WEIR_OK;
}

/* ------------------------------------------------------- libraries in the process */

enum { MAPPED_MAX = 4 };

typedef struct mpi_mapped {
    char paths[MAPPED_MAX][PATH_MAX]; /* in the order in which they were loaded */
    int count;
} mpi_mapped;

static int mpi_note_mapped(struct dl_phdr_info *info, size_t bytes, void *context)
{
    mpi_mapped *mapped = context;
    (void)bytes;
    if (mapped->count < MAPPED_MAX && mpi_abi_of(info->dlpi_name) != ABI_UNKNOWN &&
        realpath(info->dlpi_name, mapped->paths[mapped->count]))
        mapped->count++;
    return 0;
}

static weir_status mpi_refuse_two(const char *one, const char *other)
{
    return weiri_fail(WEIR_ERR_SYSTEM,
                      "two MPI libraries in one process, %s and %s: leave one out, or name the "
                      "one that a library needs by WEIR_MPI_SO",
                      one, other);
}

/* Finds the libraries, and fails if two are of different installations. A library for the
 * standard's ABI may consist of the one for MPICH's in the same folder. */
static weir_status mpi_find_mapped(mpi_mapped *mapped)
{
    mapped->count = 0;
    dl_iterate_phdr(mpi_note_mapped, mapped);
    for (int i = 1; i < mapped->count; i++) {
        const char *first = mapped->paths[0], *other = mapped->paths[i];
        const size_t folder = (size_t)(strrchr(first, '/') + 1 - first);
        if (strncmp(first, other, folder) != 0 || strchr(other + folder, '/'))
            return mpi_refuse_two(first, other);
    }
    return WEIR_OK;
}

/* ------------------------------------------------------------- libraries of files */

/* Checks that a library, by the text of its version, belongs to the launcher. */
static weir_status mpi_check_fits(const weiri_launcher_row *row, void *handle, const char *file)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0, (*get)(char *, int *) = NULL;
    *(void **)&get = dlsym(handle, "MPI_Get_library_version");
    if (get)
        get(version, &length);
    const int is_openmpi = strncmp(version, "Open MPI", 8) == 0;
    if (row->mpi == WEIRI_MPI_ANY || is_openmpi == (row->mpi == WEIRI_MPI_OPENMPI))
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_UNSUPPORTED,
                      "%s (%.*s) does not belong to this launcher: every process would be a job "
                      "of one rank",
                      file, (int)strcspn(version, ",\n"), version);
}

/* Opens a library, and takes it if it fits the launcher. Only then its symbols become those of the
 * process. */
static weir_status mpi_try(const weiri_launcher_row *row, const char *path)
{
    struct link_map *map = NULL;
    weir_mpi_library library;
    weir_status status = WEIR_ERR_UNSUPPORTED;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return weiri_fail(status, "%s", dlerror());
    const char *file = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : path;
    mpi_abi abi = mpi_abi_of(file);
    if (abi == ABI_UNKNOWN && dlsym(handle, "ompi_mpi_comm_world"))
        abi = ABI_OPENMPI;
    if (abi == ABI_UNKNOWN)
        weiri_fail(status,
                   "%s: not the name of an MPI library; expected libmpi_abi.so.1, "
                   "libmpi.so.12 or libmpi.so.40",
                   file);
    else
        status = mpi_check_fits(row, handle, file);
    if (status == WEIR_OK && dlopen(file, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD))
        status = mpi_fill(handle, file, abi, &library);
    if (status != WEIR_OK) {
        dlclose(handle);
        return status;
    }
    weiri_mpi = library;
    opened.abi = abi;
    snprintf(opened.file, sizeof opened.file, "%s", file);
    return WEIR_OK;
}

/* 1 if a library of this ABI can belong to the launcher. */
static int mpi_is_candidate(const weiri_launcher_row *row, mpi_abi abi)
{
    return abi == ABI_STANDARD || row->mpi == WEIRI_MPI_ANY ||
           (abi == ABI_OPENMPI) == (row->mpi == WEIRI_MPI_OPENMPI);
}

/* Tries the libraries in the lib folders of an MPI installation. */
static weir_status mpi_try_prefix(const weiri_launcher_row *row, const char *prefix)
{
    static const char *const folders[] = {"lib", "lib64", "lib/*-linux-gnu", "lib/release"};
    weir_status status = WEIR_ERR_UNSUPPORTED;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        for (size_t k = 0; k < sizeof mpi_files / sizeof *mpi_files; k++) {
            char pattern[PATH_MAX];
            glob_t found = {.gl_pathc = 0};
            if (!mpi_is_candidate(row, mpi_files[k].abi))
                continue;
            snprintf(pattern, sizeof pattern, "%s/%s/%.*s", prefix, folders[i],
                     (int)strlen(mpi_files[k].pattern) - 1, mpi_files[k].pattern);
            if (glob(pattern, 0, NULL, &found) == 0)
                for (size_t n = 0; n < found.gl_pathc && status != WEIR_OK; n++)
                    status = mpi_try(row, found.gl_pathv[n]);
            globfree(&found);
            if (status == WEIR_OK)
                return status;
        }
    return status;
}

static void mpi_find_prefix(const weiri_launcher_row *row)
{
    weiri_job_identity identity;
    char link[40];
    weiri_job_identity_find(row, &identity);
    snprintf(link, sizeof link, "/proc/%d/exe", identity.launcher);
    const ssize_t length = identity.launcher ? readlink(link, opened.prefix, PATH_MAX - 1) : -1;
    opened.prefix[length > 0 ? length : 0] = '\0';
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(opened.prefix, '/');
        *(slash ? slash : opened.prefix) = '\0';
    }
}

static weir_status mpi_search(const weiri_launcher_row *row)
{
    static const char *const roots[] = {"OPAL_PREFIX", "I_MPI_ROOT", "CRAY_MPICH_DIR", "MPI_HOME"};
    static const char *const names[] = {"libmpi.so.12", "libmpich.so.12", "libmpi.so.40",
                                        "libmpi_abi.so.1"};
    if (*opened.prefix && mpi_try_prefix(row, opened.prefix) == WEIR_OK)
        return WEIR_OK;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
        if (weiri_launcher_variable(roots[i]) &&
            mpi_try_prefix(row, weiri_launcher_variable(roots[i])) == WEIR_OK)
            return WEIR_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (mpi_is_candidate(row, mpi_abi_of(names[i])) && mpi_try(row, names[i]) == WEIR_OK)
            return WEIR_OK;
    return weiri_fail(
        WEIR_ERR_UNSUPPORTED,
        "no MPI library of this launcher was found next to it or by the dynamic linker (%s); "
        "install it, add its folder to LD_LIBRARY_PATH, or name it by WEIR_MPI_SO",
        row->mpi == WEIRI_MPI_OPENMPI ? "libmpi.so.40 of Open MPI, or its libmpi_abi.so.1"
                                      : "libmpi.so.12 of MPICH or Intel MPI, or libmpi_abi.so.1");
}

/* A library of another installation than the launcher's may fail. OPAL_PREFIX, which Open MPI's
 * launchers set, is where a library would look for its parts. */
static void mpi_note_foreign(const weiri_launcher_row *row)
{
    char real[PATH_MAX];
    const size_t length = strlen(opened.prefix);
    const char *parts = getenv("OPAL_PREFIX");
    if (length == 0 || !realpath(opened.file, real) ||
        (strncmp(real, opened.prefix, length) == 0 && real[length] == '/'))
        return;
    if (parts && strcmp(parts, opened.prefix) == 0)
        unsetenv("OPAL_PREFIX");
    if (weiri_launcher_number(row->rank) == 0)
        weiri_log(WEIRI_LOG_WARN, "%s is of another installation than the launcher in %s/bin",
                  opened.file, opened.prefix);
}

static weir_status mpi_open_first(const weiri_launcher_row *row)
{
    const char *named = weiri_env(WEIRI_ENV_MPI_SO);
    static mpi_mapped mapped; /* under the mutex */
    weir_status status = mpi_find_mapped(&mapped);
    if (status != WEIR_OK)
        return status;
    mpi_find_prefix(row);
    if (!named && mapped.count == 0) {
        status = mpi_search(row);
    } else {
        /* One launcher serves several MPIs under Slurm and Flux, and with PMIx. */
        weiri_launcher_row lenient = *row;
        if (row->kind == WEIRI_LAUNCHER_PMIX || getenv("SLURM_STEP_ID") || getenv("FLUX_JOB_ID"))
            lenient.mpi = WEIRI_MPI_ANY;
        if (mpi_try(&lenient, named ? named : mapped.paths[0]) != WEIR_OK)
            return weiri_fail_context(WEIR_ERR_SYSTEM, "%s",
                                      named ? "WEIR_MPI_SO" : "MPI in this process");
    }
    if (status == WEIR_OK)
        status = mpi_find_mapped(&mapped);
    if (status != WEIR_OK)
        return status;
    opened.mapped = mapped.count;
    mpi_note_foreign(row);
    return WEIR_OK;
}

weir_status weiri_mpi_open(const weiri_launcher_row *row)
{
    weir_status status = WEIR_OK;
    pthread_mutex_lock(&opened.mutex);
    if (!weiri_mpi.bytes && weiri_mpi_linked) {
        weiri_mpi_linked(&weiri_mpi);
        snprintf(opened.file, sizeof opened.file, "linked by the build");
    } else if (!weiri_mpi.bytes) {
        status = mpi_open_first(row);
    }
    pthread_mutex_unlock(&opened.mutex);
    return status;
}

weir_status weiri_mpi_check_alone(void)
{
    static mpi_mapped mapped; /* under the mutex */
    weir_status status = WEIR_OK;
    pthread_mutex_lock(&opened.mutex);
    if (opened.mapped > 0) {
        status = mpi_find_mapped(&mapped);
        if (status == WEIR_OK && mapped.count > opened.mapped)
            status = mpi_refuse_two(opened.file, mapped.paths[mapped.count - 1]);
    }
    pthread_mutex_unlock(&opened.mutex);
    return status;
}

weir_status weiri_mpi_take(const weir_mpi_library *library)
{
    weir_status status = WEIR_OK;
    if (library->bytes < sizeof *library)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_boot_mpi_create: the program was compiled with an older "
                          "weir/mpi.h than this library's; compile it again");
    pthread_mutex_lock(&opened.mutex);
    if (weiri_mpi.bytes && weiri_mpi.Comm_dup != library->Comm_dup)
        status = weiri_fail(WEIR_ERR_SYSTEM,
                            "two MPI libraries in one process: weir uses %s already, and the "
                            "program passes a communicator of another one",
                            *opened.file ? opened.file : "an MPI");
    else
        weiri_mpi = *library;
    pthread_mutex_unlock(&opened.mutex);
    return status;
}
