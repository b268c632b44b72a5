/* A process that runs a peer: see peer_process.h. */
#define _GNU_SOURCE
#include "bench/candidate/peer_process.h"

#include "bench/job/exchange.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---------------------------------------------------------------- the socket */

static int send_bytes(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        const ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return -1;
        at += sent;
        bytes -= (size_t)sent;
    }
    return 0;
}

/* until_ms: a moment of weiri_clock_ms. Returns BENCH_PEER_HANGS or BENCH_PEER_CRASHES, or 0. */
static int receive_bytes(int fd, void *data, size_t bytes, uint64_t until_ms)
{
    char *at = data;
    while (bytes > 0) {
        const uint64_t now_ms = weiri_clock_ms();
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (now_ms >= until_ms)
            return BENCH_PEER_HANGS;
        if (poll(&ready, 1, (int)(until_ms - now_ms < 1000 ? until_ms - now_ms : 1000)) <= 0)
            continue;
        const ssize_t got = recv(fd, at, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return BENCH_PEER_CRASHES;
        at += got;
        bytes -= (size_t)got;
    }
    return 0;
}

int bench_peer_send(int fd, uint32_t kind, const void *data, size_t bytes)
{
    const bench_peer_message message = {.kind = kind, .bytes = (uint32_t)bytes};
    return send_bytes(fd, &message, sizeof message) ? -1 : send_bytes(fd, data, bytes);
}

int bench_peer_receive(int fd, bench_peer_message *message, void *data, size_t room)
{
    if (receive_bytes(fd, message, sizeof *message, UINT64_MAX) || message->bytes > room)
        return -1;
    return receive_bytes(fd, data, message->bytes, UINT64_MAX) ? -1 : 0;
}

int bench_peer_exchange(int fd, int rank, int nranks, void *all, size_t bytes)
{
    if (bench_peer_send(fd, BENCH_PEER_EXCHANGE, (char *)all + (size_t)rank * bytes, bytes))
        return -1;
    return receive_bytes(fd, all, (size_t)nranks * bytes, UINT64_MAX) ? -1 : 0;
}

/* --------------------------------------------------------------- the process */

/* In the child: its output goes to standard error, and it ends with its parent. */
static void become_child(void)
{
    static const int defaults[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE,  SIGILL,
                                   SIGTERM, SIGINT, SIGCHLD, SIGALRM, SIGPIPE};
    const struct rlimit no_core = {0, 0};
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++)
        signal(defaults[i], SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setrlimit(RLIMIT_CORE, &no_core);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(STDERR_FILENO, STDOUT_FILENO);
}

void bench_peer_process_start(bench_peer_process *process, bench_job *job,
                              void (*body)(void *context, int fd), void *context)
{
    int ends[2];
    *process = (bench_peer_process){.job = job, .fd = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        become_child();
        body(context, ends[1]);
        _exit(1);
    }
    close(ends[1]);
    process->fd = ends[0];
    process->pid = child > 0 ? child : 0;
}

void bench_peer_process_end(bench_peer_process *process)
{
    if (process->pid > 0) {
        kill(process->pid, SIGKILL);
        while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (process->fd >= 0)
        close(process->fd);
    process->pid = 0;
    process->fd = -1;
}

/* ------------------------------------------------------------------ commands */

/* What a rank's process answered, as the ranks exchange it. */
typedef struct peer_answer {
    bench_peer_message message;
    char text[WEIR_PEER_TEXT];
} peer_answer;

/* Waits for a process whose socket has closed, and describes how it ended. */
static void describe_end(bench_peer_process *process, const char *what, peer_answer *answer)
{
    int state = 0;
    pid_t got = 0;
    if (process->pid > 0)
        while ((got = waitpid(process->pid, &state, 0)) < 0 && errno == EINTR)
            ;
    const int is_known = got == process->pid && got > 0;
    process->pid = 0;
    if (is_known && WIFSIGNALED(state))
        snprintf(answer->text, sizeof answer->text, "crashes in %s (%s)", what,
                 strsignal(WTERMSIG(state)));
    else if (is_known && WIFEXITED(state))
        snprintf(answer->text, sizeof answer->text, "ends its process in %s (exit code %d)", what,
                 WEXITSTATUS(state));
    else
        snprintf(answer->text, sizeof answer->text, "no process could run %s", what);
}

/* Half of the deadline of the job, so that a hang is found before the ranks give up. */
static uint64_t answer_until_ms(const bench_job *job)
{
    return weiri_clock_ms() + (uint64_t)job->timeout_ms / 2;
}

/* Receives an answer; the bytes of a failure become its text, others *data (owned by the caller).
 */
static void receive_answer(bench_peer_process *process, const char *what, peer_answer *answer,
                           void **data)
{
    const uint64_t until_ms = answer_until_ms(process->job);
    int ended = BENCH_PEER_CRASHES;
    *data = NULL;
    if (process->pid > 0)
        ended = receive_bytes(process->fd, &answer->message, sizeof answer->message, until_ms);
    if (!ended)
        *data = calloc(1, (size_t)answer->message.bytes + 1);
    if (!ended && *data)
        ended = receive_bytes(process->fd, *data, answer->message.bytes, until_ms);
    if (ended)
        answer->message = (bench_peer_message){.kind = (uint32_t)ended};
    if (ended == BENCH_PEER_CRASHES)
        describe_end(process, what, answer);
    else if (ended == BENCH_PEER_HANGS)
        snprintf(answer->text, sizeof answer->text, "hangs in %s (no answer for %d s)", what,
                 process->job->timeout_ms / 2000);
    else if (!*data)
        answer->message.kind = BENCH_PEER_FAILED;
    else if (answer->message.kind == BENCH_PEER_FAILED)
        snprintf(answer->text, sizeof answer->text, "%s", (char *)*data);
}

/* The answer of all ranks: done or exchange if all agree, else the worst one of the lowest rank. A
 * rank whose peer died leaves others hanging, so that a hang is the least of failures. */
static uint32_t judge_answers(bench_peer_process *process, const peer_answer *answers)
{
    const int nranks = process->job->nranks;
    const bench_peer_message *first = &answers[0].message;
    int worst = -1, unlike = 0;
    for (int i = 0; i < nranks; i++) {
        const bench_peer_message *m = &answers[i].message;
        unlike |=
            m->kind != first->kind || (m->kind == BENCH_PEER_EXCHANGE && m->bytes != first->bytes);
        if (m->kind < BENCH_PEER_FAILED)
            continue;
        if (worst < 0 ||
            (answers[worst].message.kind == BENCH_PEER_HANGS && m->kind != BENCH_PEER_HANGS))
            worst = i;
    }
    if (worst >= 0)
        snprintf(process->failure, sizeof process->failure, "%s",
                 answers[worst].text[0] ? answers[worst].text : "no memory for its answer");
    else if (unlike)
        snprintf(process->failure, sizeof process->failure, "its ranks exchange unlike amounts");
    return worst >= 0 || unlike ? BENCH_PEER_FAILED : first->kind;
}

/* Gathers the blocks of the group, and replies. Collective. */
static int carry_out_exchange(bench_peer_process *process, const void *mine, size_t bytes)
{
    const bench_job *job = process->job;
    char *all = calloc((size_t)job->group_nranks, bytes ? bytes : 1);
    if (all)
        memcpy(all + (size_t)job->group_rank * bytes, mine, bytes);
    if (bench_exchange_fold(job, BENCH_FOLD_MIN, all != NULL) < 1 ||
        bench_exchange_group(job, all, bytes) != 0) {
        snprintf(process->failure, sizeof process->failure, "no memory for its exchange");
        free(all);
        return -1;
    }
    (void)send_bytes(process->fd, all, (size_t)job->group_nranks * bytes); /* a death shows next */
    free(all);
    return 0;
}

/* Takes one answer of every rank's process. Returns BENCH_PEER_EXCHANGE if more follow. */
static uint32_t take_step(bench_peer_process *process, const char *what, peer_answer *answers,
                          void *answer, size_t room)
{
    const bench_job *job = process->job;
    peer_answer *mine = &answers[job->rank];
    void *data;
    memset(mine, 0, sizeof *mine);
    bench_job_phase(process->job, "trial of a peer", 0);
    receive_answer(process, what, mine, &data);
    const bench_peer_message message = mine->message;
    if (weir_boot_allgather(job->boot, answers, sizeof *answers) != WEIR_OK)
        bench_exchange_fail(job);
    uint32_t kind = judge_answers(process, answers);
    if (kind == BENCH_PEER_EXCHANGE && carry_out_exchange(process, data, message.bytes) != 0)
        kind = BENCH_PEER_FAILED;
    if (kind == BENCH_PEER_DONE && answer)
        memcpy(answer, data, message.bytes < room ? message.bytes : room);
    free(data);
    return kind;
}

int bench_peer_process_do(bench_peer_process *process, uint32_t kind, const void *data,
                          size_t bytes, const char *what, void *answer, size_t room)
{
    peer_answer *answers = calloc((size_t)process->job->nranks, sizeof *answers);
    uint32_t result = BENCH_PEER_EXCHANGE;
    if (bench_exchange_fold(process->job, BENCH_FOLD_MIN, answers != NULL) < 1) {
        snprintf(process->failure, sizeof process->failure, "no memory for its answers");
        result = BENCH_PEER_FAILED;
    } else {
        (void)bench_peer_send(process->fd, kind, data, bytes); /* a death shows in the answer */
    }
    while (result == BENCH_PEER_EXCHANGE)
        result = take_step(process, what, answers, answer, room);
    free(answers);
    if (result == BENCH_PEER_DONE)
        return 0;
    bench_peer_process_end(process);
    return -1;
}

int bench_peer_process_call(bench_peer_process *process, const void *data, size_t bytes, double *us)
{
    peer_answer answer = {.text = ""};
    void *text;
    (void)bench_peer_send(process->fd, BENCH_PEER_CALL, data, bytes);
    receive_answer(process, "a timed call", &answer, &text);
    free(text);
    *us = answer.message.us;
    if (answer.message.kind == BENCH_PEER_DONE)
        return 0;
    memcpy(process->failure, answer.text, sizeof process->failure);
    return -1;
}
