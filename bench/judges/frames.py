#!/usr/bin/python3
"""Frames for pipelines and what must come back, as scapy builds and reads them.

frames.py build FOLDER   writes a capture GROUP.in.pcap for each group of cases
frames.py judge FOLDER   compares each GROUP.out.pcap with what scapy would have sent, and prints
                         a line for each case: name, ours, the judge's, separated by tabs
frames.py flip FOLDER CAPTURE...
                         writes the capture icrc.in.pcap: of each kind of RoCEv2 packet in the
                         captures one as it is, and copies with one bit flipped, for every byte that
                         the ICRC covers; prints how many of them zlib finds right, and how many wrong
frames.py icrc FOLDER CAPTURE...
                         prints a line for each capture: packets whose ICRC zlib finds right, wrong

A case is a frame that goes in and the frame that must come out, or none. Every frame that comes out
is also read by scapy, which computes all its checksums anew; the ICRC is computed here with zlib.
"""

import hashlib
import os
import sys
import zlib

from scapy.all import (
    ARP, ICMP, IP, TCP, UDP, Dot1Q, Ether, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6ND_NA,
    ICMPv6ND_NS, ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr, IPOption, IPv6, Raw, conf, rdpcap,
    wrpcap)

conf.verb = 0

# Ours is that of the first soft NIC of a run.
PEER, OURS = "02:00:00:00:00:01", "02:57:00:00:00:00"
PEER4, OURS4, OTHER4 = "10.78.0.1", "10.78.0.2", "10.78.0.9"
PEER6, OURS6, OTHER6 = "fd78::1", "fd78::2", "fd78::9"
NODE6, NODE_MAC = "ff02::1:ff00:2", "33:33:ff:00:00:02"
ALL6, ALL_MAC = "ff02::1", "33:33:00:00:00:01"
BROADCAST = "ff:ff:ff:ff:ff:ff"
ROCE = 4791


def payload(length):
    return bytes((7 * index + 3) & 255 for index in range(length))


def plain(frame):
    """Bytes of a frame as a NIC sends it: lengths and checksums by scapy, padded to 60 bytes."""
    return bytes(frame).ljust(60, b"\0")


def from_peer(tags=()):
    frame = Ether(src=PEER, dst=OURS)
    for tag in tags:
        frame = frame / Dot1Q(vlan=tag)
    return frame


def to_peer(tags=()):
    frame = Ether(src=OURS, dst=PEER)
    for tag in tags:
        frame = frame / Dot1Q(vlan=tag)
    return frame


def respond():
    """A responder for 10.78.0.2 and fd78::2."""
    cases = []

    def case(name, sent, answer):
        cases.append((name, plain(sent), answer and plain(answer)))

    ask = ARP(op=1, hwsrc=PEER, psrc=PEER4, pdst=OURS4)
    tell = ARP(op=2, hwsrc=OURS, psrc=OURS4, hwdst=PEER, pdst=PEER4)
    case("arp, broadcast", Ether(src=PEER, dst=BROADCAST) / ask, to_peer() / tell)
    case("arp, unicast", from_peer() / ask, to_peer() / tell)
    case("arp behind a tag", Ether(src=PEER, dst=BROADCAST) / Dot1Q(vlan=7) / ask,
         to_peer([7]) / tell)
    probe = ARP(op=1, hwsrc=PEER, psrc="0.0.0.0", pdst=OURS4)
    case("arp probe", Ether(src=PEER, dst=BROADCAST) / probe,
         to_peer() / ARP(op=2, hwsrc=OURS, psrc=OURS4, hwdst=PEER, pdst="0.0.0.0"))
    case("arp for another", Ether(src=PEER, dst=BROADCAST) /
         ARP(op=1, hwsrc=PEER, psrc=PEER4, pdst=OTHER4), None)
    case("arp reply", from_peer() / ARP(op=2, hwsrc=PEER, psrc=PEER4, hwdst=OURS, pdst=OURS4),
         None)

    for length in (0, 1, 55, 56, 57, 1000, 1471, 1472):
        for tags in ((), (7,), (200, 2001)):
            if tags and length > 1400:
                continue
            echo = dict(id=0x1234, seq=length & 0xffff)
            data = Raw(payload(length)) if length else b""
            name = f"echo v4, {length} bytes{', tagged' * len(tags)}"
            case(name,
                 from_peer(tags) / IP(src=PEER4, dst=OURS4, ttl=17, id=77) / ICMP(type=8, **echo) /
                 data,
                 to_peer(tags) / IP(src=OURS4, dst=PEER4, ttl=64, id=77) / ICMP(type=0, **echo) /
                 data)
            name = f"echo v6, {length} bytes{', tagged' * len(tags)}"
            if length > 1452:
                continue
            case(name,
                 from_peer(tags) / IPv6(src=PEER6, dst=OURS6, hlim=9, tc=5, fl=99) /
                 ICMPv6EchoRequest(data=payload(length), **echo),
                 to_peer(tags) / IPv6(src=OURS6, dst=PEER6, hlim=64, tc=5, fl=99) /
                 ICMPv6EchoReply(data=payload(length), **echo))
    # Sums at the edges of one's complement: a checksum field of 0x0000 and of 0xffff.
    for edge in (0x0000, 0xffff, 0xf7ff, 0x0800, 0x7f00):
        for word in range(0, 0x10000, 0x2455):
            sent = ICMP(type=8, id=word, seq=balance(edge, word))
            case(f"echo v4, checksum near {edge:04x}, id {word:04x}",
                 from_peer() / IP(src=PEER4, dst=OURS4) / sent,
                 to_peer() / IP(src=OURS4, dst=PEER4) / ICMP(type=0, id=sent.id, seq=sent.seq))
    option = IPOption(b"\x94\x04\x00\x00")
    case("echo v4 behind an option",
         from_peer() / IP(src=PEER4, dst=OURS4, options=[option]) / ICMP(type=8) / payload(20),
         to_peer() / IP(src=OURS4, dst=PEER4, options=[option]) / ICMP(type=0) / payload(20))
    case("echo v4 for another", from_peer() / IP(src=PEER4, dst=OTHER4) / ICMP(type=8), None)
    case("echo v4 to another's Ethernet address", Ether(src=PEER, dst="02:00:00:00:00:99") /
         IP(src=PEER4, dst=OURS4) / ICMP(type=8), None)
    case("echo v4 reply", from_peer() / IP(src=PEER4, dst=OURS4) / ICMP(type=0), None)
    case("echo v4, first fragment", from_peer() / IP(src=PEER4, dst=OURS4, flags="MF") /
         ICMP(type=8) / payload(48), None)
    case("udp", from_peer() / IP(src=PEER4, dst=OURS4) / UDP(sport=1, dport=2) / payload(9), None)

    solicit = ICMPv6ND_NS(tgt=OURS6)
    own = ICMPv6NDOptDstLLAddr(lladdr=OURS)
    advert = ICMPv6ND_NA(tgt=OURS6, R=0, S=1, O=1) / own
    mine = ICMPv6NDOptSrcLLAddr(lladdr=PEER)
    case("neighbour solicitation, multicast",
         Ether(src=PEER, dst=NODE_MAC) / IPv6(src=PEER6, dst=NODE6, hlim=255) / solicit / mine,
         to_peer() / IPv6(src=OURS6, dst=PEER6, hlim=255) / advert)
    case("neighbour solicitation, unicast",
         from_peer() / IPv6(src=PEER6, dst=OURS6, hlim=255) / solicit / mine,
         to_peer() / IPv6(src=OURS6, dst=PEER6, hlim=255) / advert)
    case("neighbour solicitation without option",
         from_peer() / IPv6(src=PEER6, dst=OURS6, hlim=255) / solicit,
         to_peer() / IPv6(src=OURS6, dst=PEER6, hlim=255) / advert)
    case("neighbour solicitation behind a tag",
         Ether(src=PEER, dst=NODE_MAC) / Dot1Q(vlan=7) /
         IPv6(src=PEER6, dst=NODE6, hlim=255) / solicit / mine,
         to_peer([7]) / IPv6(src=OURS6, dst=PEER6, hlim=255) / advert)
    case("duplicate address detection",
         Ether(src=PEER, dst=NODE_MAC) / IPv6(src="::", dst=NODE6, hlim=255) / solicit,
         Ether(src=OURS, dst=ALL_MAC) / IPv6(src=OURS6, dst=ALL6, hlim=255) /
         ICMPv6ND_NA(tgt=OURS6, R=0, S=0, O=1) / own)
    case("neighbour solicitation from afar",
         from_peer() / IPv6(src=PEER6, dst=OURS6, hlim=254) / solicit / mine, None)
    case("neighbour solicitation for another",
         Ether(src=PEER, dst="33:33:ff:00:00:09") /
         IPv6(src=PEER6, dst="ff02::1:ff00:9", hlim=255) / ICMPv6ND_NS(tgt=OTHER6) / mine, None)
    return cases


def balance(edge, word):
    """The sequence number with which an echo request's checksum is `edge`, as near as one may."""
    total = 0x0800 + word
    total = (total & 0xffff) + (total >> 16)
    want = (~edge) & 0xffff
    return (want - total) % 0xffff


def traffic():
    """Frames of every kind, by name."""
    frames = {}
    for length in (0, 1, 2, 17, 18, 100, 1471):
        data = payload(length)
        frames[f"udp v4, {length} bytes"] = (
            Ether(src=PEER, dst=OURS) / IP(src=PEER4, dst=OURS4, ttl=33, tos=0x2a, id=1) /
            UDP(sport=1000, dport=2000) / data)
        frames[f"udp v6, {length} bytes"] = (
            Ether(src=PEER, dst=OURS) / IPv6(src=PEER6, dst=OURS6, hlim=33, tc=0x2a, fl=0xabcde) /
            UDP(sport=1000, dport=2000) / data[:1452])
        frames[f"tcp v4, {length} bytes"] = (
            Ether(src=PEER, dst=OURS) / IP(src=PEER4, dst=OURS4, ttl=33, tos=1, id=2) /
            TCP(sport=1000, dport=2000, seq=7, ack=9, flags="PA", options=[("MSS", 1460)]) /
            data[:1456])
        frames[f"tcp v6, {length} bytes"] = (
            Ether(src=PEER, dst=OURS) / IPv6(src=PEER6, dst=OURS6, hlim=33) /
            TCP(sport=1000, dport=2000, seq=7, ack=9, flags="S") / data[:1440])
    frames["udp v4 behind a tag"] = (
        Ether(src=PEER, dst=OURS) / Dot1Q(vlan=5, prio=3) / IP(src=PEER4, dst=OURS4, ttl=33) /
        UDP(sport=1000, dport=2000) / payload(40))
    frames["tcp v6 behind two tags"] = (
        Ether(src=PEER, dst=OURS) / Dot1Q(vlan=5) / Dot1Q(vlan=6) /
        IPv6(src=PEER6, dst=OURS6, hlim=33) / TCP(sport=1000, dport=2000) / payload(41))
    frames["udp v4 without checksum"] = (
        Ether(src=PEER, dst=OURS) / IP(src=PEER4, dst=OURS4, ttl=33) /
        UDP(sport=1000, dport=2000, chksum=0) / payload(33))
    frames["udp v4 behind an option"] = (
        Ether(src=PEER, dst=OURS) /
        IP(src=PEER4, dst=OURS4, ttl=33, options=[IPOption(b"\x94\x04\x00\x00")]) /
        UDP(sport=1000, dport=2000) / payload(33))
    frames["echo v4"] = (
        Ether(src=PEER, dst=OURS) / IP(src=PEER4, dst=OURS4, ttl=33) / ICMP(type=8) / payload(56))
    frames["echo v6"] = (
        Ether(src=PEER, dst=OURS) / IPv6(src=PEER6, dst=OURS6, hlim=33) /
        ICMPv6EchoRequest(data=payload(56)))
    for version, network in ((4, IP(src=PEER4, dst=OURS4, ttl=33, flags="DF", id=3)),
                             (6, IPv6(src=PEER6, dst=OURS6, hlim=33))):
        for length in (0, 4, 64, 1024):
            # SEND ONLY, migration set, partition key ffff, queue pair 11h, sequence number 9.
            transport = bytes.fromhex("0440ffff0000001100000009") + payload(length)
            frames[f"roce v{version}, {length} bytes"] = sealed(
                Ether(src=PEER, dst=OURS) / network /
                UDP(sport=50000, dport=ROCE, chksum=0) / Raw(transport))
    frames["arp"] = (
        Ether(src=PEER, dst=OURS) / ARP(op=1, hwsrc=PEER, psrc=PEER4, pdst=OURS4) / payload(18))
    return frames


def sealed(frame):
    """A RoCEv2 frame with its ICRC, which `frame` lacks."""
    frame = frame.copy()
    frame[UDP].payload = Raw(bytes(frame[UDP].payload) + bytes(4))
    frame = Ether(bytes(frame))
    frame[UDP].payload = Raw(bytes(frame[UDP].payload)[:-4] + icrc(frame))
    return frame


def icrc(frame):
    """The invariant CRC: 8 bytes of ones, the packet with its variant fields all ones, no ICRC."""
    network = frame[IP] if IP in frame else frame[IPv6]
    packet = bytearray(bytes(network))
    if IP in frame:
        header = 4 * (packet[0] & 15)
        end = int.from_bytes(packet[2:4], "big")
        masked = [1, 8, 10, 11]
    else:
        header = 40
        end = 40 + int.from_bytes(packet[4:6], "big")
        packet[0] |= 0x0f
        masked = [1, 2, 3, 7]
    # UDP's checksum, and the byte of the base transport header with FECN and BECN.
    masked += [header + 6, header + 7, header + 8 + 4]
    for at in masked:
        packet[at] = 0xff
    return (zlib.crc32(b"\xff" * 8 + packet[:end - 4]) & 0xffffffff).to_bytes(4, "little")


def variant(packet):
    """Offsets in an IP packet of the bytes that the ICRC leaves out, wholly or in part."""
    if packet[0] >> 4 == 4:
        return [1, 8, 10, 11, 26, 27, 32]
    return [0, 1, 2, 3, 7, 46, 47, 52]


def holds(frame):
    """Whether a frame is RoCEv2 behind plain IP headers, with the right ICRC."""
    packet = frame[14:]
    four = frame[12:14] == b"\x08\x00" and packet[:1] == b"\x45" and packet[9] == 17
    six = frame[12:14] == b"\x86\xdd" and packet[0] >> 4 == 6 and packet[6] == 17
    at = 20 if four else 40
    if not (four or six) or packet[at + 2:at + 4] != ROCE.to_bytes(2, "big"):
        return False
    end = int.from_bytes(packet[2:4], "big") if four else 40 + int.from_bytes(packet[4:6], "big")
    whole = at + 8 + 12 + 4 <= end <= len(packet)
    return whole and icrc(Ether(frame)) == packet[end - 4:end]


def flip(folder, captures):
    samples = {}
    for capture in captures:
        for frame in map(bytes, rdpcap(capture)):
            if holds(frame):
                opcode = frame[14 + (28 if frame[12] == 8 else 48)]
                samples.setdefault((frame[12], opcode), frame)
    right, wrong = [], []
    for _, frame in sorted(samples.items()):
        right.append(frame)
        end = 14 + (int.from_bytes(frame[16:18], "big") if frame[12] == 8
                    else 40 + int.from_bytes(frame[18:20], "big"))
        left_out = variant(frame[14:])
        for at in range(14, end):
            if at - 14 not in left_out:
                copy = bytearray(frame)
                copy[at] ^= 1 << at % 8
                wrong.append(bytes(copy))
    wrpcap(os.path.join(folder, "icrc.in.pcap"), [Ether(frame) for frame in right + wrong])
    print(sum(map(holds, right)), len(wrong), sum(map(holds, wrong)))


def count_icrc(captures):
    for capture in captures:
        frames = [bytes(frame) for frame in rdpcap(capture)
                  if UDP in frame and frame[UDP].dport == ROCE]
        right = sum(map(holds, frames))
        print(f"{right}, {len(frames) - right}")


def outer(frame):
    return frame[IP] if IP in frame else frame[IPv6] if IPv6 in frame else None


def built(frame):
    """The frame with every checksum computed anew; an absent UDP checksum stays absent."""
    frame = frame.copy()
    network = outer(frame)
    if network is None:
        return frame
    if IP in frame:
        del frame[IP].chksum
    if UDP in frame and frame[UDP].chksum != 0:
        del frame[UDP].chksum
    for layer in (TCP, ICMP):
        if layer in frame:
            del frame[layer].chksum
    if "cksum" in getattr(network.payload, "fields", {}):
        del network.payload.cksum
    frame = Ether(bytes(frame))
    if UDP in frame and frame[UDP].dport == ROCE:
        # Ethernet padding stands behind the datagram.
        payload = bytes(frame[UDP].payload)[:frame[UDP].len - 8]
        frame[UDP].payload = Raw(payload[:-4] + icrc(frame))
    return frame


def changed(change):
    """Cases in which every kind of frame is changed by the same function."""
    cases = []
    for name, frame in traffic().items():
        frame = Ether(bytes(frame))
        after = built(change(frame.copy()))
        cases.append((name, plain(frame), plain(after)))
    return cases


def swap(frame):
    frame.src, frame.dst = frame.dst, frame.src
    return frame


def hop(frame):
    network = outer(frame)
    if network is not None:
        if IP in frame:
            network.ttl -= 1
        else:
            network.hlim -= 1
    return swap(frame)


def everything(frame):
    """What the pipeline `rewrite` writes."""
    frame.src, frame.dst = "02:00:00:00:00:0c", "02:00:00:00:00:0d"
    if Dot1Q in frame:
        frame[Dot1Q].vlan = 99
    network = outer(frame)
    if network is None:
        return frame
    if IP in frame:
        network.src, network.dst, network.ttl = "192.0.2.7", "198.51.100.9", 77
        network.tos = 26 << 2 | network.tos & 3
    else:
        network.hlim = 77
        network.tc = 26 << 2 | network.tc & 3
    for layer in (TCP, UDP):
        if layer in frame:
            frame[layer].sport = 4444
            if frame[layer].dport != ROCE:
                frame[layer].dport = frame[layer].dport
    return frame


def everything6(frame):
    """What the pipeline `rewrite6` writes."""
    network = outer(frame)
    if IPv6 in frame:
        network.src, network.dst = "2001:db8::7", "2001:db8::9"
    for layer in (TCP, UDP):
        if layer in frame:
            frame[layer].dport = 5555
    return swap(frame)


GROUPS = {
    "respond": respond,
    "macswap": lambda: changed(swap),
    "hop": lambda: changed(hop),
    "rewrite": lambda: changed(everything),
    "rewrite6": lambda: [case for case in changed(everything6) if "roce" not in case[0]],
}


def told(frame, want):
    """A frame in words: its length, a digest, whether scapy finds its checksums right."""
    if frame is None:
        return "none"
    read = Ether(frame)
    sums = "sums right" if plain(built(read)) == frame else "SUMS WRONG"
    words = f"{len(frame)} bytes {hashlib.sha256(frame).hexdigest()[:8]}, {sums}"
    if want is not None and frame != want:
        pairs = enumerate(zip(frame, want))
        at = next((at for at, (a, b) in pairs if a != b), min(len(frame), len(want)))
        words += f", byte {at}: {frame[at:at + 4].hex()} not {want[at:at + 4].hex()}"
    return words


def build(folder):
    for name, cases in GROUPS.items():
        path = os.path.join(folder, f"{name}.in.pcap")
        wrpcap(path, [Ether(sent) for _, sent, _ in cases()])


def judge(folder):
    for group, cases in GROUPS.items():
        path = os.path.join(folder, f"{group}.out.pcap")
        frames = [bytes(frame) for frame in rdpcap(path)] if os.path.exists(path) else []
        wanted = [(name, want) for name, _, want in cases() if want is not None]
        # Frames keep their order, so that one that is missing or too many shifts the rest.
        for index in range(max(len(wanted), len(frames))):
            name, want = wanted[index] if index < len(wanted) else ("a frame too many", None)
            frame = frames[index] if index < len(frames) else None
            print(f"{group}: {name}", told(frame, want), told(want, None), sep="\t")
        silent = sum(want is None for _, _, want in cases())
        if silent:
            extra = len(frames) - len(wanted)
            print(f"{group}: {silent} frames that get no answer", f"{extra} answered",
                  "0 answered", sep="\t")


if __name__ == "__main__":
    command, folder, *captures = sys.argv[1:]
    if command == "flip":
        flip(folder, captures)
    elif command == "icrc":
        count_icrc(captures)
    else:
        {"build": build, "judge": judge}[command](folder)
