/*
 * The parts of the TCP bootstrap that need no peer: addresses are parsed or rejected, unique ids
 * are validated, interfaces are chosen as the environment says, and the message authentication code
 * is SipHash.
 */
#include "boot/address.h"
#include "base/mac.h"
#include "boot/unique_id.h"
#include "verify/tests/support/unit_test.h"

static int last_error_has(const char *text)
{
    return strstr(weir_last_error(), text) != NULL;
}

TEST(malformed_addresses_are_rejected)
{
    static const char *const bad[] = {"",
                                      ":",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "127.0.0.1:0",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:5x",
                                      "127.0.0.1:-5",
                                      "127.0.0.1: 5",
                                      "127.1:5000",
                                      "1:5000",
                                      "localhost:5000",
                                      "eth0:localhost:5000",
                                      "::1:5000",
                                      "[::1]",
                                      "[::1]:",
                                      "[::1:5000",
                                      "eth0[::1]:5000",
                                      "[127.0.0.1]:5000",
                                      "256.0.0.1:5000",
                                      "interface-16-abc:10.0.0.1:5000",
                                      "an-interface-name-too-long:10.0.0.1:5000"};
    weir_boot *boot = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weir_status status = weir_boot_tcp_create_at(bad[i], 0, 1, &boot);
        if (status != WEIR_ERR_INVALID || !last_error_has("expected interface:ip:port"))
            fail_msg("'%s': %s, %s", bad[i], weir_status_name(status), weir_last_error());
    }
    assert_int_equal(weir_boot_tcp_create_at(NULL, 0, 1, &boot), WEIR_ERR_INVALID);
    assert_int_equal(weir_boot_tcp_create_at("127.0.0.1:5000", 1, 1, &boot), WEIR_ERR_INVALID);
    assert_int_equal(weir_boot_tcp_create_at("127.0.0.1:5000", 0, 0, &boot), WEIR_ERR_INVALID);
    assert_int_equal(weir_boot_tcp_create_at("nosuch0:127.0.0.1:5000", 0, 1, &boot),
                     WEIR_ERR_SYSTEM);
    assert_true(last_error_has("'nosuch0'") && last_error_has("lo"));
    /* Reserved for documentation; no host has it. */
    assert_int_equal(weir_boot_tcp_create_at("192.0.2.1:5000", 0, 1, &boot), WEIR_ERR_SYSTEM);
    assert_true(last_error_has("cannot listen at 192.0.2.1:5000"));
    assert_null(boot);
}

TEST(well_formed_addresses_are_parsed)
{
    weiri_named_address named;
    char text[WEIRI_ADDRESS_TEXT_BYTES];
    assert_int_equal(weiri_named_address_parse("eth0:10.0.0.4:50000", &named), WEIR_OK);
    assert_string_equal(named.interface, "eth0");
    assert_string_equal(weiri_address_text(&named.address, text), "10.0.0.4:50000");
    assert_int_equal(weiri_named_address_parse("interface-15-ab:10.0.0.4:1", &named), WEIR_OK);
    assert_string_equal(named.interface, "interface-15-ab");
    assert_int_equal(weiri_named_address_parse("10.0.0.4:1", &named), WEIR_OK);
    assert_string_equal(named.interface, "");
    assert_int_equal(weiri_named_address_parse("lo:[::1]:65535", &named), WEIR_OK);
    assert_string_equal(named.interface, "lo");
    assert_string_equal(weiri_address_text(&named.address, text), "[::1]:65535");
    assert_int_equal(weiri_named_address_parse("10.0.0.4:0123", &named), WEIR_OK);
    assert_string_equal(weiri_address_text(&named.address, text), "10.0.0.4:123");
}

TEST(changed_and_used_ids_are_rejected)
{
    weir_unique_id good, bad;
    weir_boot *boot = NULL;
    memset(&bad, 0, sizeof bad);
    assert_int_equal(weir_boot_tcp_create(&bad, 0, 1, &boot), WEIR_ERR_INVALID);
    assert_int_equal(weir_unique_id_create(&good), WEIR_OK);
    for (size_t i = 0; i < sizeof(weiri_rendezvous_point) + 24; i++) {
        bad = good;
        bad.bytes[i] ^= 0x20;
        assert_int_equal(weir_boot_tcp_create(&bad, 0, 1, &boot), WEIR_ERR_INVALID);
    }
    assert_int_equal(weir_boot_tcp_create(&good, 1, 1, &boot), WEIR_ERR_INVALID);
    assert_int_equal(weir_boot_tcp_create(&good, 0, 1, &boot), WEIR_OK);
    weir_boot_destroy(boot);
    boot = NULL;
    assert_int_equal(weir_boot_tcp_create(&good, 0, 1, &boot), WEIR_ERR_PEER); /* used up */
    assert_true(last_error_has("at the unique id's address"));
    assert_null(boot);
}

TEST(WEIR_SOCKET_IFNAME_chooses_the_interface_of_ids)
{
    weir_unique_id id;
    weiri_rendezvous_point point;
    weir_boot *boot = NULL;
    setenv("WEIR_SOCKET_IFNAME", "nosuch0", 1);
    assert_int_equal(weir_unique_id_create(&id), WEIR_ERR_SYSTEM);
    assert_true(last_error_has("WEIR_SOCKET_IFNAME") && last_error_has("'nosuch0'"));
    setenv("WEIR_SOCKET_IFNAME", "lo", 1);
    assert_int_equal(weir_unique_id_create(&id), WEIR_OK);
    assert_int_equal(weiri_unique_id_decode(&id, &point), WEIR_OK);
    assert_int_equal(point.address.ip[0], 127);
    assert_int_equal(weir_boot_tcp_create(&id, 0, 1, &boot), WEIR_OK);
    unsetenv("WEIR_SOCKET_IFNAME");
    weir_boot_destroy(boot);
}

/* Also for the ranks of an id, and not only for the process that creates it. */
TEST(a_WEIR_SOCKET_IFNAME_that_names_no_interface_is_an_error)
{
    static const char *const empty[] = {",,,,", "^", "=", "^=", "^,"};
    weir_unique_id id, unused;
    weir_boot *boot = NULL;
    assert_int_equal(weir_unique_id_create(&id), WEIR_OK);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1); /* does not replace it */
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        setenv("WEIR_SOCKET_IFNAME", empty[i], 1);
        assert_int_equal(weir_unique_id_create(&unused), WEIR_ERR_INVALID);
        assert_true(last_error_has("WEIR_SOCKET_IFNAME='") && last_error_has(empty[i]));
        assert_int_equal(weir_boot_tcp_create(&id, 0, 1, &boot), WEIR_ERR_INVALID);
    }
    setenv("WEIR_SOCKET_IFNAME", "", 1); /* as if it were not set */
    assert_int_equal(weir_boot_tcp_create(&id, 0, 1, &boot), WEIR_OK);
    weir_boot_destroy(boot);
    unsetenv("WEIR_SOCKET_IFNAME");
    unsetenv("NCCL_SOCKET_IFNAME");
}

/* lo has addresses of both families, unless IPv6 is turned off. */
/* An interface may have several addresses, and is listed once; one without addresses is not. */
TEST(the_interfaces_that_can_be_chosen_are_listed_once)
{
    char text[512], wish[64], seen[16][64], *rest = NULL;
    int count = 0;
    weiri_address address;
    assert_int_equal(weiri_interface_address("=nosuch0", NULL, &address), WEIR_ERR_SYSTEM);
    snprintf(text, sizeof text, "%s", weir_last_error());
    char *names = strstr(text, "interfaces that are: ");
    assert_non_null(names);
    for (char *name = strtok_r(names + strlen("interfaces that are: "), ", ", &rest);
         name && count < 16; name = strtok_r(NULL, ", ", &rest)) {
        snprintf(wish, sizeof wish, "=%s", name);
        assert_int_equal(weiri_interface_address(wish, NULL, &address), WEIR_OK);
        for (int i = 0; i < count; i++)
            assert_string_not_equal(seen[i], wish);
        memcpy(seen[count++], wish, sizeof wish);
    }
    assert_true(count > 0);
}

TEST(an_address_is_of_the_family_that_the_other_end_has)
{
    const weiri_address v4 = {.ip = {127, 0, 0, 1}}, v6 = {.is_ipv6 = 1, .ip = {[15] = 1}};
    weiri_address found = {.is_ipv6 = 1};
    assert_int_equal(weiri_interface_address("=lo", &v4, &found), WEIR_OK);
    assert_int_equal(found.is_ipv6, 0);
    weir_status status = weiri_interface_address("=lo", &v6, &found);
    assert_int_equal(found.is_ipv6, status == WEIR_OK);
}

/* The interface that NCCL_SOCKET_IFNAME=pattern selects, "" if none. */
static const char *chosen_by(const char *pattern, char name[IF_NAMESIZE])
{
    weir_unique_id id;
    weiri_rendezvous_point point;
    setenv("NCCL_SOCKET_IFNAME", pattern, 1);
    name[0] = '\0';
    if (weir_unique_id_create(&id) != WEIR_OK)
        return name;
    assert_int_equal(weiri_unique_id_decode(&id, &point), WEIR_OK);
    weiri_interface_name(&point.address, name);
    return name;
}

TEST(NCCL_SOCKET_IFNAME_is_matched_like_nccl)
{
    char name[IF_NAMESIZE], best[IF_NAMESIZE];
    weiri_address address;
    assert_int_equal(weiri_interface_address(NULL, NULL, &address), WEIR_OK);
    weiri_interface_name(&address, best);
    assert_string_equal(chosen_by("lo", name), "lo");
    assert_string_equal(chosen_by("=lo", name), "lo");
    assert_string_equal(chosen_by("nosuch0,lo", name), "lo");
    assert_string_equal(chosen_by("=nosuch0,lo", name), "lo");
    assert_string_equal(chosen_by("=l", name), "");
    assert_true(last_error_has("NCCL_SOCKET_IFNAME") && last_error_has("'l'"));
    assert_string_equal(chosen_by("lo1,nosuch0", name), "");
    assert_int_equal(chosen_by("l", name)[0], 'l');
    assert_string_equal(chosen_by("^nosuch0", name), best);
    assert_string_equal(chosen_by("^=l,nosuch0", name), best);
    assert_string_not_equal(chosen_by("^lo", name), "lo");
    assert_int_not_equal(chosen_by("^nosuch0,l", name)[0], 'l');
    setenv("WEIR_SOCKET_IFNAME", "lo", 1); /* has precedence */
    assert_string_equal(chosen_by("nosuch0", name), "lo");
    unsetenv("WEIR_SOCKET_IFNAME");
    unsetenv("NCCL_SOCKET_IFNAME");
}

/* ------------------------------------------------------------------ the MAC */

/* The published test vectors of SipHash-2-4-128: key 00 01 .. 0f, data 00 01 .. */
TEST(the_mac_is_siphash_2_4_128)
{
    static const uint8_t of_0[] = {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6,
                                   0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93};
    static const uint8_t of_15[] = {0x54, 0x93, 0xe9, 0x99, 0x33, 0xb0, 0xa8, 0x11,
                                    0x7e, 0x08, 0xec, 0x0f, 0x97, 0xcf, 0xc3, 0xd9};
    static const uint8_t of_63[] = {0x51, 0x50, 0xd1, 0x77, 0x2f, 0x50, 0x83, 0x4a,
                                    0x50, 0x3e, 0x06, 0x9a, 0x97, 0x3f, 0xbd, 0x7c};
    uint8_t key[16], data[63], mac[16];
    for (int i = 0; i < 63; i++)
        data[i] = (uint8_t)i;
    memcpy(key, data, sizeof key);
    weiri_mac(key, data, 0, mac);
    assert_memory_equal(mac, of_0, 16);
    weiri_mac(key, data, 15, mac);
    assert_memory_equal(mac, of_15, 16);
    weiri_mac(key, data, 63, mac);
    assert_memory_equal(mac, of_63, 16);
    assert_true(weiri_mac_equal(mac, of_63));
    mac[15] ^= 1;
    assert_false(weiri_mac_equal(mac, of_63));
}

int main(void)
{
    return run_all_tests("boot_address");
}
