/* Prints sizes, offsets and constants of linux/if_xdp.h as `name value` lines. */
#include <linux/if_xdp.h>
#include <stddef.h>
#include <stdio.h>

#define SIZE(type) printf("sizeof %s %zu\n", #type, sizeof(struct type))
#define OFFSET(type, field) printf("%s.%s %zu\n", #type, #field, offsetof(struct type, field))
#define VALUE(name) printf("%s %llu\n", #name, (unsigned long long)(name))

int main(void)
{
	SIZE(xdp_desc);
	OFFSET(xdp_desc, addr);
	OFFSET(xdp_desc, len);
	OFFSET(xdp_desc, options);
	VALUE(XDP_RING_NEED_WAKEUP);
#ifdef XDP_PKT_CONTD
	VALUE(XDP_PKT_CONTD);
#endif
#ifdef XDP_TX_METADATA
	VALUE(XDP_TX_METADATA);
	VALUE(XDP_TXMD_FLAGS_CHECKSUM);
	SIZE(xsk_tx_metadata);
	OFFSET(xsk_tx_metadata, flags);
	OFFSET(xsk_tx_metadata, request.csum_start);
	OFFSET(xsk_tx_metadata, request.csum_offset);
#endif
	return 0;
}
