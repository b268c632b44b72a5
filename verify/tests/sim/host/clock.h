/*
 * Ranks as threads of execution in simulated time, all in one thread of the process. The rank with
 * the earliest time runs, until its time passes another one's or it waits; so ranks access shared
 * words in the order of simulated time. Times are in nanoseconds.
 */
#ifndef WEIR_TESTS_SIM_HOST_CLOCK_H
#define WEIR_TESTS_SIM_HOST_CLOCK_H

/* Runs main on every rank, all from time 0 on, and returns when all have returned. Exits with a
 * message if ranks wait for each other forever. */
void sim_clock_run(int nranks, void (*main)(int rank));

/* The running rank, or -1 outside sim_clock_run; its time. */
int sim_clock_self(void);
double sim_clock_now_ns(void);

/* Lets the running rank's time pass, and ranks run that are earlier. */
void sim_clock_advance_to(double ns);
/* Stops the running rank until another one wakes it with its new time. */
void sim_clock_block(void);
void sim_clock_wake(int rank, double ns);

#endif
