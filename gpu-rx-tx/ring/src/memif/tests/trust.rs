//! Peers that lie, and addresses that are not ours.

use super::*;

#[test]
fn a_server_descriptor_out_of_bounds_is_a_fault_and_no_access() {
    let bytes = 8192 + 2 * 4 * 64;
    let good = Descriptor {
        region: 0,
        offset: 0,
        length: 64,
        ..Descriptor::default()
    };
    let cases = [
        (good, true),
        (
            Descriptor {
                offset: bytes - 64,
                ..good
            },
            true,
        ),
        (
            Descriptor {
                offset: bytes,
                length: 0,
                ..good
            },
            true,
        ),
        (
            Descriptor {
                offset: bytes - 63,
                ..good
            },
            false,
        ),
        (
            Descriptor {
                offset: bytes + 1,
                length: 0,
                ..good
            },
            false,
        ),
        (
            Descriptor {
                offset: u32::MAX,
                ..good
            },
            false,
        ),
        (
            Descriptor {
                length: u32::MAX,
                ..good
            },
            false,
        ),
        (
            Descriptor {
                offset: 64,
                length: u32::MAX - 63,
                ..good
            },
            false,
        ),
        (
            Descriptor {
                region: 1,
                length: 0,
                ..good
            },
            false,
        ),
        (Descriptor { region: 2, ..good }, false),
        (
            Descriptor {
                region: u16::MAX,
                ..good
            },
            false,
        ),
    ];
    let mut wire = Wire::new(4, 64);
    wire.regions[0].length = u64::from(bytes);
    // A number that was never announced: no address, no length.
    wire.regions.push(Region::default());
    wire.regions[1].address = DeviceAddress::NULL;
    wire.start_at(FIRST);
    let (mut to_server, _) = wire.to_server(FIRST);
    let (from_server, _) = wire.to_client(FIRST);
    to_server.send(&[b"x"]).unwrap();
    to_server.publish();
    for (descriptor, sound) in cases {
        wire.overwrite(RingKind::ClientToServer, 0, descriptor);
        let (_, mut rx) = wire.to_server(FIRST);
        let segment = rx.queue.segment(FIRST, 0);
        // Region 1 is in the table with length 0: only an empty piece at its start is within it.
        let sound_here = sound || (descriptor.region == 1 && descriptor.length == 0);
        assert_eq!(!segment.fault(), sound_here, "{descriptor:?}");
        let room = wire.regions[0].length - u64::from(descriptor.offset.min(bytes));
        assert_eq!(u64::from(segment.room), if sound { room } else { 0 });
        if segment.fault() {
            assert_eq!((segment.address, segment.length), (DeviceAddress::NULL, 0));
            assert_eq!(rx.receive(), Err(Cause::RingCorrupted));
            assert_eq!(rx.cursor.head, FIRST + 1, "the slot can go back");
        }
        wire.overwrite(RingKind::ServerToClient, 0, descriptor);
        from_server.queue.recycle(FIRST);
        // A hint about a bad descriptor goes nowhere.
        from_server.queue.prepare(FIRST);
        let buffer = from_server.queue.buffer(FIRST);
        if !sound_here {
            assert_eq!(buffer, crate::frame::Buffer::default(), "{descriptor:?}");
        }
        let post = Post {
            address: wire.regions[0].address.offset(u64::from(descriptor.offset)),
            length: 1,
            parts: 1,
            ..Post::default()
        };
        let aligned = descriptor.offset % 16 == 0;
        let writes = sound && aligned && descriptor.length >= 1;
        let want = match (writes, sound_here && aligned) {
            (true, _) => Ok(()),
            (false, true) => Err(Cause::LocalProtection),
            (false, false) => Err(Cause::RingCorrupted),
        };
        assert_eq!(
            from_server.queue.write(FIRST, &post),
            want,
            "{descriptor:?}"
        );
        let place = wire.descriptor(RingKind::ServerToClient, 0).offset(4);
        // SAFETY: the length of a descriptor that is ours.
        let sent = unsafe { memory::load_u32(place) };
        let length = if writes { 1 } else { descriptor.length };
        assert_eq!(sent, length, "what is refused changes nothing");
    }
}

/// The descriptor's length is the frame's once it is written; the buffer stays as long as it was.
#[test]
fn a_slot_that_was_written_can_be_written_again() {
    let wire = Wire::new(4, 64);
    wire.start_at(FIRST);
    let (server, _) = wire.to_client(FIRST);
    let buffer = server.queue.buffer(FIRST);
    assert_eq!(buffer.capacity, 64);
    for length in [10, 64, 1, 33] {
        let post = Post {
            address: buffer.address,
            length,
            parts: 1,
            ..Post::default()
        };
        assert_eq!(server.queue.write(FIRST, &post), Ok(()), "{length} bytes");
        assert_eq!(server.queue.buffer(FIRST), buffer);
        let (_, client) = wire.to_client(FIRST);
        assert_eq!(client.queue.segment(FIRST, 0).length, length);
    }
    // The client offers a shorter buffer in the slot.
    let offered = Descriptor {
        length: 32,
        offset: (buffer.address.value() - address(&wire.region).value()) as u32,
        ..Descriptor::default()
    };
    wire.overwrite(RingKind::ServerToClient, 0, offered);
    server.queue.recycle(FIRST);
    assert_eq!(server.queue.buffer(FIRST).capacity, 32);
}

#[test]
fn a_client_trusts_no_length_and_no_offset_of_the_server() {
    let wire = Wire::new(4, 64);
    wire.start_at(0);
    let (_, mut rx) = wire.to_client(0);
    let cases = [(0, false), (64, false), (65, true), (u32::MAX, true)];
    for (length, fault) in cases {
        let lie = Descriptor {
            flags: DescriptorFlags::NEXT.bits(),
            region: 7,
            length,
            offset: 0xDEAD_BEEF,
            metadata: 1,
        };
        wire.overwrite(RingKind::ServerToClient, 1, lie);
        let segment = rx.queue.segment(1, 0);
        assert_eq!(segment.fault(), fault, "{length}");
        assert!(segment.more());
        if !fault {
            let offset = wire.plan.buffer_offset(RingKind::ServerToClient, 0, 1);
            assert_eq!(segment.address, address(&wire.region).offset(offset));
        }
    }
    rx.cursor.head = 4;
    rx.release_all();
    // What is offered again is ours, whatever the server wrote there.
    let offered = wire.to_client(0).0.queue.buffer(5);
    let offset = wire.plan.buffer_offset(RingKind::ServerToClient, 0, 1);
    assert_eq!(offered.address, address(&wire.region).offset(offset));
    assert_eq!(offered.capacity, 64);
}

#[test]
fn an_index_that_jumps_is_noticed() {
    for jump in [9_u16, 0x8000, 0xFFFF] {
        let wire = Wire::new(8, 64);
        wire.start_at(FIRST);
        let (mut client_tx, server_rx) = wire.to_server(FIRST);
        let (mut server_tx, client_rx) = wire.to_client(FIRST);
        let (up, down) = (wire.ring(KINDS[0]), wire.ring(KINDS[1]));
        // SAFETY: indices of rings that are ours.
        unsafe { memory::store_release_u16(up.offset(6), jump) };
        assert_eq!(server_rx.ready(), Err(Cause::RingCorrupted));
        // SAFETY: as above.
        unsafe { memory::store_release_u16(up.offset(64), jump) };
        assert_eq!(client_tx.poll(), Err(Cause::RingCorrupted));
        // SAFETY: as above.
        unsafe { memory::store_release_u16(down.offset(64), jump) };
        assert_eq!(client_rx.ready(), Err(Cause::RingCorrupted));
        // SAFETY: as above.
        unsafe { memory::store_release_u16(down.offset(6), jump.wrapping_add(8)) };
        assert_eq!(server_tx.poll(), Err(Cause::RingCorrupted));
    }
}

#[test]
fn foreign_addresses_and_offloads_are_refused() {
    let wire = Wire::new(4, 64);
    wire.start_at(FIRST);
    let (client, _) = wire.to_server(FIRST);
    let (server, _) = wire.to_client(FIRST);
    let own = client.queue.buffer(FIRST).address;
    let offered = server.queue.buffer(FIRST).address;
    let base = address(&wire.region);
    let end = base.offset(wire.plan.bytes());
    let post = |address, length| Post {
        address,
        length,
        parts: 1,
        ..Post::default()
    };
    let offload = |address| Post {
        flags: PostFlags::OFFLOAD_L4,
        ..post(address, 60)
    };
    let refused = Err(Cause::LocalProtection);
    let cases = [
        (post(own, 64), Ok(()), refused),
        (post(offered, 64), Ok(()), Ok(())),
        (post(offered.offset(16), 16), Ok(()), refused),
        (post(offered, 65), Ok(()), refused),
        (post(end.offset(-1_i64 as u64), 1), Ok(()), refused),
        (post(end, 1), refused, refused),
        (post(base.offset(-1_i64 as u64), 1), refused, refused),
        (post(DeviceAddress::NULL, 1), refused, refused),
        (offload(own), refused, refused),
        (offload(offered), refused, refused),
    ];
    for (post, as_client, as_server) in cases {
        let (client, _) = wire.to_server(FIRST);
        assert_eq!(client.queue.write(FIRST, &post), as_client, "{post:?}");
        wire.overwrite(
            RingKind::ServerToClient,
            0,
            Descriptor {
                length: 64,
                offset: (offered.value() - base.value()) as u32,
                ..Descriptor::default()
            },
        );
        server.queue.recycle(FIRST);
        assert_eq!(server.queue.write(FIRST, &post), as_server, "{post:?}");
    }
    let foreign = end.offset(64);
    assert_eq!(client.queue.exchange(FIRST, foreign), foreign);
    assert_eq!(client.queue.buffer(FIRST).address, own);
}
