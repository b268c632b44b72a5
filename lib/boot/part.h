/* A bootstrap that covers some of the ranks of another. */
#ifndef WEIR_BOOT_PART_H
#define WEIR_BOOT_PART_H

#include <weir/weir.h>

/* Joins count ranks of whole, in the order of members, which are the same on each of
 * them and hold the caller's own; only they call it. Local. whole stays the caller's
 * and must outlive the part. While one of the part's operations runs, no other
 * operation of whole may, and messages between two members through both must keep
 * one order. */
weir_status weiri_boot_part_create(weir_boot *whole, const int *members, int count,
                                   weir_boot **part);

#endif
