/*
 * The identity of this build of the library: its version, and a hash of all of its sources, which
 * fix the layout of what ranks share and send each other. Equal for builds that differ only in
 * BUILD, CUDA, the compiler or what the machine has.
 */
#ifndef WEIR_BASE_BUILD_ID_H
#define WEIR_BASE_BUILD_ID_H

/* What ranks exchange before anything else. Its layout never changes, in any version: texts, padded
 * with zeros. */
typedef struct weiri_build_id {
    char version[32];
    char sources[32];
} weiri_build_id;

/* Returns this build's identity. */
const weiri_build_id *weiri_build_id_own(void);

#endif
