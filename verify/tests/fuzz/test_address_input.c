/*
 * Texts and bytes that name where ranks find each other: the first byte selects an address such as
 * "eth0:10.0.0.1:5000", a choice of interfaces, or a unique id. An address that is accepted can be
 * printed.
 */
#include "verify/tests/support/fuzz_input.h"

#include "boot/address.h"
#include "boot/unique_id.h"

static void fuzz_unique_id(const uint8_t *data, size_t bytes)
{
    weir_unique_id id = {{0}};
    weiri_rendezvous_point point;
    memcpy(&id, data, bytes < sizeof id ? bytes : sizeof id);
    if (weiri_unique_id_decode(&id, &point) == WEIR_OK) {
        weir_unique_id again;
        weiri_unique_id_encode(&point, &again);
        FUZZ_DEMAND(memcmp(&id, &again, sizeof id) == 0);
    }
}

static void fuzz_text(int kind, const char *text)
{
    char shown[WEIRI_ADDRESS_TEXT_BYTES];
    weiri_named_address named;
    weiri_address address;
    weir_status status = kind ? weiri_interface_address(text, NULL, &address)
                              : weiri_named_address_parse(text, &named);
    FUZZ_DEMAND(status == WEIR_OK || *weir_last_error());
    if (status == WEIR_OK)
        FUZZ_DEMAND(*weiri_address_text(kind ? &address : &named.address, shown));
}

void fuzz_input(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return;
    if (data[0] % 3 == 2) {
        fuzz_unique_id(data + 1, bytes - 1);
        return;
    }
    char *text = calloc(1, bytes);
    FUZZ_DEMAND(text);
    memcpy(text, data + 1, bytes - 1);
    fuzz_text(data[0] % 3, text);
    free(text);
}
