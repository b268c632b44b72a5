/*
 * NCCL's environment variables. Programs set them for NCCL; weir obeys some. No variable is ignored
 * without a word: the first communicator of a process, if this is its rank 0, logs which variables
 * have no effect (a warning), which weir obeys (at level info), and which name resembles one of
 * NCCL's.
 */
#ifndef WEIR_NCCL_COMM_VARIABLES_H
#define WEIR_NCCL_COMM_VARIABLES_H

/* Sets the level of the log by NCCL_DEBUG, and reports the variables if rank is 0. Only the first
 * call of a process has an effect. Thread-safe. */
void weiri_nccl_variables_report(int rank);

#endif
