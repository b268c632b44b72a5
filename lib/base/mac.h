/*
 * Message authentication for the TCP bootstrap: SipHash-2-4 with a key and a result of 128 bits
 * (Aumasson and Bernstein, "SipHash: a fast short-input PRF"), random bytes, and comparison in
 * constant time.
 */
#ifndef WEIR_BASE_MAC_H
#define WEIR_BASE_MAC_H

#include <weir/weir.h>

#include <stdint.h>

enum { WEIRI_KEY_BYTES = 16, WEIRI_MAC_BYTES = 16, WEIRI_NONCE_BYTES = 16 };

void weiri_mac(const uint8_t key[WEIRI_KEY_BYTES], const void *data, size_t bytes,
               uint8_t mac[WEIRI_MAC_BYTES]);
/* Returns 1 if equal, in a time that does not depend on where they differ. */
int weiri_mac_equal(const uint8_t a[WEIRI_MAC_BYTES], const uint8_t b[WEIRI_MAC_BYTES]);
/* Fills data with random bytes of the operating system. WEIR_ERR_SYSTEM. */
weir_status weiri_random(void *data, size_t bytes);

#endif
