/* Which environment variables may be written down: those that say something
 * about the measurement and never hold a secret. All others stay unseen. */
#ifndef BENCH_OPTIONS_ENVIRONMENT_H
#define BENCH_OPTIONS_ENVIRONMENT_H

/* variable: "NAME=value", as in environ. 1 if it may. Pure. */
int bench_environment_allows(const char *variable);

#endif
