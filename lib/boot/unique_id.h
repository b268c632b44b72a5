/* The bytes of unique ids. */
#ifndef WEIR_BOOT_UNIQUE_ID_H
#define WEIR_BOOT_UNIQUE_ID_H

#include "boot/rendezvous.h"

void weiri_unique_id_encode(const weiri_rendezvous_point *point, weir_unique_id *id);
/* WEIR_ERR_INVALID: damaged, or not from weir_unique_id_create. */
weir_status weiri_unique_id_decode(const weir_unique_id *id, weiri_rendezvous_point *point);

#endif
