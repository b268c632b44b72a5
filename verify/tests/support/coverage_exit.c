/*
 * For BUILD=coverage: _exit() writes the counters first. Forked ranks end by it, and would lose
 * theirs. Linked with -Wl,--wrap=_exit.
 */
void __gcov_dump(void);
void __real__exit(int status) __attribute__((noreturn));
void __wrap__exit(int status) __attribute__((noreturn));

void __wrap__exit(int status)
{
    __gcov_dump();
    __real__exit(status);
}
