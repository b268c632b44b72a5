/* Unique ids: their bytes, and the interface at which the process that creates one listens. */
#include "boot/unique_id.h"

#include "base/error.h"

#include <stddef.h>
#include <string.h>

#define MAGIC 0x3164692d72696577u /* the last digit is the version */

/* The bytes of an id; the rest is zero. */
typedef struct contents {
    uint64_t magic;
    weiri_rendezvous_point point;
    uint8_t check[WEIRI_MAC_BYTES]; /* MAC of the fields before it */
} contents;

_Static_assert(sizeof(contents) == 8 + 24 + 16 + 16, "ids have no padding");
_Static_assert(sizeof(contents) <= WEIR_UNIQUE_ID_BYTES, "an id holds its contents");

void weiri_unique_id_encode(const weiri_rendezvous_point *point, weir_unique_id *id)
{
    contents all = {.magic = MAGIC, .point = *point};
    weiri_mac(point->key, &all, offsetof(contents, check), all.check);
    memset(id, 0, sizeof *id);
    memcpy(id->bytes, &all, sizeof all);
}

weir_status weiri_unique_id_decode(const weir_unique_id *id, weiri_rendezvous_point *point)
{
    contents all;
    uint8_t check[WEIRI_MAC_BYTES];
    memcpy(&all, id->bytes, sizeof all);
    weiri_mac(all.point.key, &all, offsetof(contents, check), check);
    if (all.magic != MAGIC || !weiri_mac_equal(check, all.check))
        return weiri_fail(WEIR_ERR_INVALID,
                          "the unique id is damaged or of another version; pass on all %d bytes "
                          "that weir_unique_id_create wrote",
                          WEIR_UNIQUE_ID_BYTES);
    *point = all.point;
    return WEIR_OK;
}

static weir_status unique_id_choose_address(weiri_address *address)
{
    const char *variable, *wish;
    weir_status status = weiri_interface_wish(&wish, &variable);
    if (status != WEIR_OK)
        return status;
    status = weiri_interface_address(wish, NULL, address);
    return status == WEIR_OK || !wish ? status : weiri_fail_context(status, "%s", variable);
}

weir_status weir_unique_id_create(weir_unique_id *id)
{
    WEIRI_REQUIRE(id);
    weiri_rendezvous_point made = {0};
    weir_status status = unique_id_choose_address(&made.address);
    if (status == WEIR_OK)
        status = weiri_random(made.key, sizeof made.key);
    if (status == WEIR_OK)
        status = weiri_rendezvous_start(&made);
    if (status == WEIR_OK)
        weiri_unique_id_encode(&made, id);
    return status;
}
