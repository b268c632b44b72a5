/* What a unique id holds, and the listening sockets that wait in this process
 * for its rank 0. */
#ifndef WEIR_BOOT_UNIQUE_ID_H
#define WEIR_BOOT_UNIQUE_ID_H

#include "boot/address.h"
#include "boot/mac.h"

typedef struct weiri_meeting {
    weiri_address address;
    uint8_t key[WEIRI_KEY_BYTES];
} weiri_meeting;

void weiri_unique_id_encode(const weiri_meeting *meeting, weir_unique_id *id);
/* WEIR_ERR_INVALID: damaged, or not from weir_unique_id_create. */
weir_status weiri_unique_id_decode(const weir_unique_id *id, weiri_meeting *meeting);

/* The socket that weir_unique_id_create opened, which passes to the caller.
 * WEIR_ERR_INVALID: the id was made by another process, or is used up. */
weir_status weiri_unique_id_take(const weiri_meeting *meeting, int *listener);

#endif
