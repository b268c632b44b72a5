/* Unique ids: the bytes that tell where a rendezvous is, and its secret. */
#ifndef WEIR_BOOT_UNIQUE_ID_H
#define WEIR_BOOT_UNIQUE_ID_H

#include "boot/rendezvous.h"

void weiri_unique_id_encode(const weiri_barrier_epoch *meeting, weir_unique_id *id);
/* WEIR_ERR_INVALID: damaged, or not from weir_unique_id_create. */
weir_status weiri_unique_id_decode(const weir_unique_id *id, weiri_barrier_epoch *meeting);

#endif
