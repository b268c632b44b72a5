/* A bootstrap of a subset of the ranks of another one. */
#ifndef WEIR_BOOT_PART_H
#define WEIR_BOOT_PART_H

#include <weir/weir.h>

/* Creates a bootstrap of count ranks of parent. members has their ranks, in the order that they get
 * in the new bootstrap; it is the same on all of them and contains the calling rank. Local; called
 * by these ranks only. parent must outlive the part. A part and its parent must not be used at the
 * same time by different threads, and messages between two members must be sent and received in
 * one order over both. */
weir_status weiri_boot_part_create(weir_boot *parent, const int *members, int count,
                                   weir_boot **part);

#endif
