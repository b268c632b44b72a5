/* Records calls as text: see recorder.h. */
#include "comm/monitor/recorder.h"

#include "base/contract.h"
#include "base/env.h"
#include "base/launchers.h"
#include "base/log.h"
#include "comm/internode/internode.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    TAIL_BYTES = 1 << 18, /* of the newest lines; more than the longest line */
    LINE_BYTES = 256,     /* enough for a line without splits */
    PLACE_BYTES = 1024,   /* of a list of cpus */
    NUMBER_BYTES = 21,    /* of a split with its comma */
    NAME_BYTES = 48,
    CALL_BYTES = 96,
    DATA_BYTES = 48, /* of a type and a number */
    STREAMS_MAX = 32,
    BUFFERS_MAX = 1024, /* that are known again */
    BUFFER_NUMBERS = 1 << 24
};

/* What stands in each line of a communicator, " r3 c1a2b ", and its last call without splits, which
 * is often the next one as well. */
struct weiri_recorder {
    size_t bytes, call_bytes;
    char prefix[NAME_BYTES], text[CALL_BYTES];
    weir_call call;
    int in_place;
};

/* The buffers of a call, and their number plus 1. */
typedef struct known_buffers {
    const void *in, *out;
    int number;
} known_buffers;

/* The file of this process. */
static struct {
    pthread_mutex_t mutex;
    int fd, ncomms;
    int has_failed;    /* nothing more is written */
    char *tail;        /* the newest lines; NULL: it is not mapped */
    size_t used, head; /* bytes of it, the first ones being no lines */
    uint64_t bytes;    /* of the lines before */
    uint64_t begin_ns; /* the monotonic clock when the file began */
    struct timespec begin;
    char tail_path[PATH_MAX + 8];
    int nthreads, nstreams;
    weir_stream streams[STREAMS_MAX];   /* of GPUs, in the order of their first calls */
    known_buffers buffers[BUFFERS_MAX]; /* where their addresses lead */
    int nbuffers;
} file = {.mutex = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static atomic_int first_rank = -1;
static atomic_int groups;
static _Thread_local int group_now = -1;
static _Thread_local int thread_number = -1; /* threads are numbered as they first record */

int weiri_recorder_job_rank(int rank)
{
    const weiri_launcher_row *row = weiri_launcher_of_process();
    const int launched = row ? weiri_launcher_number(row->rank) : -1;
    int none = -1;
    atomic_compare_exchange_strong(&first_rank, &none, rank);
    return launched >= 0 ? launched : atomic_load(&first_rank);
}

int weiri_recorder_new_group(void)
{
    return atomic_fetch_add(&groups, 1) & INT_MAX;
}

void weiri_recorder_set_group(int group)
{
    group_now = group;
}

/* ------------------------------------------------------------------ the file */

static void tail_close(void)
{
    if (file.tail) {
        munmap(file.tail, TAIL_BYTES);
        unlink(file.tail_path);
    }
    file.tail = NULL;
}

/* Ends the recording for good; the lines that fitted stay. */
static void file_fail(const char *what, int error)
{
    weiri_log(WEIRI_LOG_WARN, "%s: %s: %s; the recording ends here, and the job goes on",
              weiri_env_name(WEIRI_ENV_RECORD), what, strerror(error));
    file.has_failed = 1;
    tail_close();
}

/* Empties the tail. */
static void tail_begin(void)
{
    memset(file.tail, 0, file.used);
    file.used = file.head = (size_t)snprintf(
        file.tail, LINE_BYTES, "# after %llu\nbegin %lld.%09ld\n", (unsigned long long)file.bytes,
        (long long)file.begin.tv_sec, file.begin.tv_nsec);
}

static int tail_open(void)
{
    const int fd = open(file.tail_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0664);
    int error = fd < 0 ? errno : posix_fallocate(fd, 0, TAIL_BYTES);
    void *map = MAP_FAILED;
    if (!error)
        map = mmap(NULL, TAIL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        file_fail("no room for more lines", error ? error : errno);
    else
        file.tail = map;
    if (fd >= 0)
        close(fd);
    file.used = 0;
    if (file.tail)
        tail_begin();
    return file.tail ? 0 : -1;
}

/* Appends the lines of the tail to the file; of lines that do not fit, none in part. */
static void tail_flush(void)
{
    const char *lines = file.tail + file.head;
    size_t done = 0;
    ssize_t got = 1;
    while (file.head + done < file.used && got > 0) {
        got =
            pwrite(file.fd, lines + done, file.used - file.head - done, (off_t)(file.bytes + done));
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            done += (size_t)got;
    }
    const int error = errno, is_whole = file.head + done == file.used;
    while (!is_whole && done && lines[done - 1] != '\n')
        done--;
    file.bytes += done;
    if (!is_whole && ftruncate(file.fd, (off_t)file.bytes) != 0)
        weiri_log(WEIRI_LOG_WARN, "%s: the last line is cut off", weiri_env_name(WEIRI_ENV_RECORD));
    if (!is_whole)
        file_fail("no room for more lines", got == 0 ? ENOSPC : error);
    else
        tail_begin();
}

/* Returns room for so many bytes after the last line; NULL: there is none. */
static inline char *file_room(size_t bytes)
{
    if (file.tail && file.used + bytes > TAIL_BYTES)
        tail_flush();
    if (!file.tail && (file.has_failed || tail_open() != 0))
        return NULL;
    return file.tail + file.used;
}

/* Leaves a file to who writes to it. */
static void file_drop(void)
{
    close(file.fd);
    file.fd = -1;
}

/* Makes the path of WEIR_RECORD: %r becomes the rank, which otherwise is appended. */
static void file_path(int rank, char *path, size_t bytes)
{
    const char *text = weiri_env(WEIRI_ENV_RECORD), *place = strstr(text, "%r");
    if (place)
        snprintf(path, bytes, "%.*s%d%s", (int)(place - text), text, rank, place + 2);
    else
        snprintf(path, bytes, "%s.%d", text, rank);
}

/* Finds the cpus on which this thread may run, as the kernel lists them: "0-3,8". */
static int read_cpus(char cpus[PLACE_BYTES])
{
    char line[PLACE_BYTES];
    int found = 0;
    FILE *status = fopen("/proc/thread-self/status", "re");
    while (status && !found && fgets(line, sizeof line, status))
        found = sscanf(line, "Cpus_allowed_list: %1023s", cpus) == 1;
    if (status)
        fclose(status);
    return found;
}

/* The beginning of a file: its version, its time, and where the rank runs. */
static int put_head(char *to, size_t bytes, int rank)
{
    char host[65] = "", cpus[PLACE_BYTES];
    const int length = snprintf(to, bytes, "# weir recording 1\nbegin %lld.%09ld\n",
                                (long long)file.begin.tv_sec, file.begin.tv_nsec);
    if (gethostname(host, sizeof host - 1) != 0 || !read_cpus(cpus))
        return length;
    host[strcspn(host, ".")] = '\0';
    return length +
           snprintf(to + length, bytes - (size_t)length, "place r%d %s %s\n", rank, host, cpus);
}

static void file_begin(int rank)
{
    char path[PATH_MAX], what[PATH_MAX + 64], line[LINE_BYTES + PLACE_BYTES];
    file_path(rank, path, sizeof path);
    snprintf(file.tail_path, sizeof file.tail_path, "%s.tail", path);
    file.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0664);
    clock_gettime(CLOCK_REALTIME, &file.begin);
    file.begin_ns = weir_clock_ns();
    const int bytes = put_head(line, sizeof line, rank);
    if (file.fd < 0 || flock(file.fd, LOCK_EX | LOCK_NB) != 0 || ftruncate(file.fd, 0) != 0 ||
        write(file.fd, line, (size_t)bytes) != bytes) {
        const int error = errno;
        snprintf(what, sizeof what, "cannot write %s%s", path,
                 error == EWOULDBLOCK ? ", to which another rank or library is writing" : "");
        if (error == EWOULDBLOCK)
            file_drop();
        file_fail(what, error);
        return;
    }
    file.bytes = (uint64_t)bytes;
}

/* --------------------------------------------------------------- communicators */

/* Whether ranks of the communicator share this process: their calls cannot be told apart. */
static int shares_process(const weir_comm *comm, const weiri_placement *placements)
{
    const weiri_placement *own = &placements[comm->rank];
    int found = 0;
    for (int rank = 0; rank < comm->nranks; rank++)
        found += placements[rank].host == own->host && placements[rank].kernel == own->kernel &&
                 placements[rank].pid == own->pid;
    return found > 1;
}

static void write_ranks(const weir_comm *comm, const weiri_placement *placements)
{
    const size_t bytes = LINE_BYTES + (size_t)comm->nranks * NUMBER_BYTES;
    char *line = file_room(bytes), *at = line;
    if (!line)
        return;
    at += sprintf(at, "comm c%012llx", (unsigned long long)(comm->job >> 16));
    for (int rank = 0; rank < comm->nranks; rank++)
        at += sprintf(at, "%c%d", rank ? ',' : ' ', (int)placements[rank].job_rank);
    *at++ = '\n';
    file.used += (size_t)(at - line);
}

void weiri_recorder_open(weir_comm *comm, const weiri_placement *placements)
{
    if (!weiri_env(WEIRI_ENV_RECORD))
        return;
    struct weiri_recorder *made = calloc(1, sizeof *made);
    const int rank = placements[comm->rank].job_rank;
    pthread_mutex_lock(&file.mutex);
    if (made && shares_process(comm, placements)) {
        weiri_log(WEIRI_LOG_WARN,
                  "%s: a communicator with several ranks in one process is not "
                  "recorded; start a process for each rank",
                  weiri_env_name(WEIRI_ENV_RECORD));
    } else if (made) {
        if (file.fd < 0 && !file.has_failed)
            file_begin(rank);
        made->bytes = (size_t)snprintf(made->prefix, sizeof made->prefix, " r%d c%012llx ", rank,
                                       (unsigned long long)(comm->job >> 16));
        write_ranks(comm, placements);
        file.ncomms++;
        comm->recorder = made;
    }
    pthread_mutex_unlock(&file.mutex);
    if (!comm->recorder)
        free(made);
}

void weiri_recorder_close(weir_comm *comm)
{
    if (!comm->recorder)
        return;
    pthread_mutex_lock(&file.mutex);
    if (--file.ncomms == 0 && file.tail)
        tail_flush();
    if (file.ncomms == 0)
        tail_close();
    pthread_mutex_unlock(&file.mutex);
    free(comm->recorder);
    comm->recorder = NULL;
}

/* ----------------------------------------------------------------------- lines */

static inline char *put_text(char *at, const char *text)
{
    const size_t bytes = strlen(text);
    memcpy(at, text, bytes);
    return at + bytes;
}

/* Writes a number below 100 with two digits. */
static inline void put_pair(char *at, uint32_t number)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    memcpy(at, pairs + 2 * (size_t)number, 2);
}

static char *put_whole(char *at, uint64_t number)
{
    char digits[20];
    int begin = sizeof digits;
    for (; number >= 100; number /= 100)
        put_pair(digits + (begin -= 2), (uint32_t)(number % 100));
    put_pair(digits + (begin -= 2), (uint32_t)number);
    begin += number < 10;
    memcpy(at, digits + begin, sizeof digits - (size_t)begin);
    return at + sizeof digits - (size_t)begin;
}

/* Writes nanoseconds as seconds. */
static char *put_seconds(char *at, uint64_t ns)
{
    uint32_t rest = (uint32_t)(ns % 1000000000);
    if (ns < 1000000000)
        *at++ = '0';
    else
        at = put_whole(at, ns / 1000000000);
    *at = '.';
    for (int i = 8; i > 0; i -= 2, rest /= 100)
        put_pair(at + i, rest % 100);
    at[1] = (char)('0' + rest);
    return at + 10;
}

/* The beginning of a line. */
static char *put_begin(char *at, const weir_comm *comm, uint64_t begin_ns)
{
    at = put_seconds(at, begin_ns > file.begin_ns ? begin_ns - file.begin_ns : 0);
    memcpy(at, comm->recorder->prefix, NAME_BYTES);
    return at + comm->recorder->bytes;
}

/* The number of a GPU's stream; on the host that of the thread. */
static int stream_number(const weir_comm *comm, weir_stream stream)
{
    int i = 0;
    if (!comm->gpu) {
        if (thread_number < 0)
            thread_number = file.nthreads++;
        return thread_number;
    }
    while (i < file.nstreams && file.streams[i] != stream)
        i++;
    if (i == file.nstreams && i < STREAMS_MAX)
        file.streams[file.nstreams++] = stream;
    return i;
}

/* Whether a call's buffers lie outside of the communicator's registered memory. On GPUs other
 * memory is not known to the host. */
static int is_unregistered(const weir_comm *comm, const weir_call *call)
{
    const void *data = call->in ? call->in : call->out;
    return !comm->gpu && data && weiri_region_describe(comm, data, 1).generation == 0;
}

/* The number of a call's buffers, which stays as long as others with the same place in the table do
 * not follow. */
static int buffers_number(const weir_call *call)
{
    const uint64_t mixed = ((uintptr_t)call->in * 3 + (uintptr_t)call->out) * 0x9e3779b97f4a7c15u;
    known_buffers *known = &file.buffers[mixed >> 32 & (BUFFERS_MAX - 1)];
    if (!known->number || known->in != call->in || known->out != call->out)
        *known = (known_buffers){call->in, call->out, file.nbuffers++ % BUFFER_NUMBERS + 1};
    return known->number - 1;
}

/* The memory of a call. */
static char *put_buffers(char *at, const weir_comm *comm, const weir_call *call)
{
    if (is_unregistered(comm, call))
        at = put_text(at, " unregistered");
    return put_whole(put_text(at, " buffers="), (uint64_t)buffers_number(call));
}

/* The end of a line. call: whose memory is known; or NULL. */
static char *put_end(char *at, const weir_comm *comm, const weir_call *call, int stream,
                     uint64_t begin_ns, uint64_t end_ns)
{
    if (call)
        at = put_buffers(at, comm, call);
    if (stream)
        at = put_whole(put_text(at, " stream="), (uint64_t)stream);
    if (group_now >= 0)
        at = put_whole(put_text(at, " group="), (uint64_t)group_now);
    if (end_ns)
        at = put_text(put_whole(put_text(at, " took="), end_ns - begin_ns), "e-9");
    *at++ = '\n';
    return at;
}

static char *put_counts(char *at, const char *name, const size_t *counts, int nranks)
{
    at = put_text(at, name);
    for (int rank = 0; rank < nranks; rank++) {
        if (rank)
            *at++ = ',';
        at = put_whole(at, counts[rank]);
    }
    return at;
}

static int is_in_place(const weir_comm *comm, const weir_call *call)
{
    const weiri_contract *contract = weiri_contract_of((int)call->collective);
    const weiri_buffers of = {.in = call->in,
                              .out = call->out,
                              .block_bytes = call->count * weir_dtype_bytes(call->dtype)};
    return contract->in_place == WEIRI_IN_PLACE_CALLS &&
           weiri_contract_is_in_place(contract, comm->rank, &of);
}

/* A call with splits: the counts for and from each rank. */
static char *put_splits(char *at, const weir_comm *comm, const weir_call *call)
{
    const weir_device_splits *device = call->device_splits;
    /* On the host both kinds are arrays of the process. */
    const size_t *sent = device ? (const size_t *)device->send_counts : call->splits->send_counts;
    const size_t *received =
        device ? (const size_t *)device->recv_counts : call->splits->recv_counts;
    at = put_counts(at, " sent=", sent, comm->nranks);
    return put_counts(at, " received=", received, comm->nranks);
}

static char *put_new_call(char *at, const weir_comm *comm, const weir_call *call, int in_place)
{
    const weiri_contract *contract = weiri_contract_of((int)call->collective);
    at = put_text(at, contract->name);
    *at++ = ' ';
    at = put_text(at, weir_dtype_name(call->dtype));
    if (contract->reduces) {
        *at++ = ' ';
        at = put_text(at, weir_op_name(call->op));
    }
    if (call->collective == WEIR_COLL_ALLTOALLV)
        return put_splits(at, comm, call);
    *at++ = ' ';
    at = put_whole(at, call->count);
    if (contract->has_root)
        at = put_whole(put_text(at, " root="), (uint64_t)call->root);
    return in_place ? put_text(at, " inplace") : at;
}

/* A call whose text has not changed is copied. */
static char *put_call(char *at, const weir_comm *comm, const weir_call *call)
{
    struct weiri_recorder *last = comm->recorder;
    const int in_place = is_in_place(comm, call);
    if (call->collective == last->call.collective && call->count == last->call.count &&
        call->dtype == last->call.dtype && call->op == last->call.op &&
        call->root == last->call.root && in_place == last->in_place && last->call_bytes) {
        memcpy(at, last->text, CALL_BYTES);
        return at + last->call_bytes;
    }
    char *end = put_new_call(at, comm, call, in_place);
    const int is_kept = call->collective != WEIR_COLL_ALLTOALLV && end - at <= CALL_BYTES;
    last->call = *call;
    last->in_place = in_place;
    last->call_bytes = is_kept ? (size_t)(end - at) : 0;
    memcpy(last->text, at, last->call_bytes);
    return end;
}

/* The type and the number of elements of a message, such as "float 100", and zeros: what is copied
 * behind a line must not look like another one to who reads the tail of a killed process. */
typedef struct message_data {
    char text[DATA_BYTES];
    size_t bytes;
} message_data;

static inline void set_data(message_data *data, weir_dtype dtype, size_t count)
{
    char *at = put_text(data->text, weir_dtype_name(dtype));
    *at++ = ' ';
    data->bytes = (size_t)(put_whole(at, count) - data->text);
}

static inline char *put_message(char *at, int sends, int peer, const message_data *data)
{
    at = put_text(at, sends ? "send " : "recv ");
    memcpy(at, data->text, DATA_BYTES);
    at += data->bytes;
    return put_whole(put_text(at, sends ? " to=" : " from="), (uint64_t)peer);
}

void weiri_recorder_message(const weir_comm *comm, int sends, int peer, size_t count,
                            weir_dtype dtype, weir_stream stream, uint64_t begin_ns,
                            uint64_t end_ns)
{
    message_data data = {.bytes = 0};
    set_data(&data, dtype, count);
    pthread_mutex_lock(&file.mutex);
    char *line = file_room(LINE_BYTES);
    if (line) {
        char *at = put_message(put_begin(line, comm, begin_ns), sends, peer, &data);
        at = put_end(at, comm, NULL, stream_number(comm, stream), begin_ns, end_ns);
        file.used += (size_t)(at - line);
    }
    pthread_mutex_unlock(&file.mutex);
}

/* Writes both lines of a sendrecv, of which the second one begins and ends as the first one. */
static char *put_pair_of_messages(char *line, const weir_comm *comm, const weir_call *call,
                                  uint64_t begin_ns, uint64_t end_ns)
{
    message_data data = {.bytes = 0};
    set_data(&data, call->dtype, call->count);
    char *const send = put_begin(line, comm, begin_ns);
    char *const end = put_message(send, 1, call->destination, &data);
    char *const next =
        put_end(end, comm, call, stream_number(comm, call->stream), begin_ns, end_ns);
    const size_t begin_bytes = (size_t)(send - line), end_bytes = (size_t)(next - end);
    memcpy(next, line, begin_bytes);
    if (call->recv_count != call->count)
        set_data(&data, call->dtype, call->recv_count);
    char *at = put_message(next + begin_bytes, 0, call->source, &data);
    memcpy(at, end, end_bytes);
    return at + end_bytes;
}

/* A sendrecv is a send and a receive of one group. */
static void record_sendrecv(const weir_comm *comm, const weir_call *call, uint64_t begin_ns,
                            uint64_t end_ns)
{
    const int outer = group_now;
    if (call->destination < 0 || call->source < 0) {
        if (call->destination >= 0)
            weiri_recorder_message(comm, 1, call->destination, call->count, call->dtype,
                                   call->stream, begin_ns, end_ns);
        if (call->source >= 0)
            weiri_recorder_message(comm, 0, call->source, call->recv_count, call->dtype,
                                   call->stream, begin_ns, end_ns);
        return;
    }
    if (outer < 0)
        group_now = weiri_recorder_new_group();
    pthread_mutex_lock(&file.mutex);
    char *line = file_room(2 * (size_t)LINE_BYTES);
    if (line)
        file.used += (size_t)(put_pair_of_messages(line, comm, call, begin_ns, end_ns) - line);
    pthread_mutex_unlock(&file.mutex);
    group_now = outer;
}

void weiri_recorder_call(const weir_comm *comm, const weir_call *call, uint64_t begin_ns,
                         uint64_t end_ns)
{
    if (call->collective == WEIR_COLL_SENDRECV) {
        record_sendrecv(comm, call, begin_ns, end_ns);
        return;
    }
    const int has_splits = call->collective == WEIR_COLL_ALLTOALLV;
    const size_t bytes = LINE_BYTES + (has_splits ? 2 * (size_t)comm->nranks * NUMBER_BYTES : 0);
    pthread_mutex_lock(&file.mutex);
    char *line = file_room(bytes);
    if (line && has_splits && call->device_splits && comm->gpu) {
        file.used += (size_t)sprintf(line, "# an alltoallv with counts in GPU memory: their "
                                           "values are not known to the host; left out\n");
    } else if (line) {
        char *at = put_call(put_begin(line, comm, begin_ns), comm, call);
        at = put_end(at, comm, call, stream_number(comm, call->stream), begin_ns, end_ns);
        file.used += (size_t)(at - line);
    }
    pthread_mutex_unlock(&file.mutex);
}

void weiri_recorder_barrier(const weir_comm *comm, uint64_t begin_ns, uint64_t end_ns)
{
    pthread_mutex_lock(&file.mutex);
    char *line = file_room(LINE_BYTES);
    if (line) {
        char *at = put_text(put_begin(line, comm, begin_ns), "barrier");
        at = put_end(at, comm, NULL, stream_number(comm, NULL), begin_ns, end_ns);
        file.used += (size_t)(at - line);
    }
    pthread_mutex_unlock(&file.mutex);
}
