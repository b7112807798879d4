#!/usr/bin/python3
"""Peers of services over TCP, on Linux's own sockets; each exits with 1 and a reason on any fault.

streams.py echo HOST PORT BYTES [CLOSED]
        sends bytes to an echo and compares what comes back; reads nothing for CLOSED seconds, so
        that the windows of both ends close
streams.py source HOST PORT BYTES CLOSED
        reads what a source sends, after CLOSED seconds of reading nothing
streams.py take HOST PORT FILE
        listens, and compares what the first one who connects sends with a file
streams.py give HOST PORT FILE
        connects, sends a file, and waits for the end of the other one
streams.py measured SECONDS WORDS
        reads what iperf3 --json told of a measurement of these words
streams.py many HOST PORT COUNT BYTES PROCESS
        COUNT connections to an echo at a time, and BYTES each way on each of them; tells the memory
        of the process that serves
streams.py flood HOST PORT COUNT PROCESS INTERFACE MAC
        COUNT segments that ask for a connection, from addresses out of 198.18.0.0/15, while one
        connection to an echo goes on; the memory of the process must stay as it is
"""

import array
import hashlib
import json
import random
import resource
import select
import socket
import struct
import sys
import threading
import time

BLOCK = 1 << 20
PATTERN = bytes(range(251))
# No progress for so long is a stall: the third retransmission of a segment, and some room.
STALL = 20
# In a crowd that begins at once more segments come than a ring has slots, and on a busy machine the
# same connections lose each time: after the eighth loss of a segment Linux waits for 51 seconds.
CROWD_STALL = 60
# Connections that are being opened at a time: fewer than listeners' queues take.
OPENING = 200
# Memory may differ by so much, for what the allocator does.
SLACK = 1 << 20


class Fault(Exception):
    """What is wrong."""


def block(number):
    """A mebibyte that is found in one place of a stream only."""
    return struct.pack("!Q", number) + RANDOM[8:]


def connect(host, port, buffer=None):
    info = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    stream = socket.socket(info[0], socket.SOCK_STREAM)
    if buffer:
        # Before the connection is opened, or the scale of the window is larger than this needs.
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    stream.settimeout(STALL)
    stream.connect(info[4])
    return stream


def read(stream, each):
    """Reads to the end; the bytes, and the longest time without any."""
    count, pause, last = 0, 0.0, time.monotonic()
    while True:
        piece = stream.recv(1 << 18)
        now = time.monotonic()
        pause, last = max(pause, now - last), now
        if not piece:
            return count, pause
        each(count, piece)
        count += len(piece)


def rate(count, start):
    return f"{count / (time.monotonic() - start) / 1e6:.0f} MB/s"


def echo(host, port, count, closed="0"):
    count, closed = int(count), float(closed)
    stream = connect(host, port, 1 << 16 if closed else None)
    sent, came, faults, held = hashlib.sha256(), hashlib.sha256(), [], [0.0]

    def send():
        try:
            left, number = count, 0
            while left > 0:
                piece = memoryview(block(number))[:left]
                sent.update(piece)
                held[0] = time.monotonic()
                stream.sendall(piece)
                left, number = left - len(piece), number + 1
            stream.shutdown(socket.SHUT_WR)
        except OSError as error:
            faults.append(f"sending: {error}")

    stream.settimeout(STALL + closed)
    start = time.monotonic()
    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    time.sleep(closed)
    opened = time.monotonic()
    if closed and opened - held[0] < closed / 2:
        raise Fault("the windows did not close: all the time there was room for more")
    back, pause = read(stream, lambda _, piece: came.update(piece))
    sender.join()
    if faults or back != count or sent.digest() != came.digest():
        raise Fault(f"{back} of {count} bytes came back; hashes {sent.hexdigest()} and "
                    f"{came.hexdigest()}; {faults}")
    print(f"each way {count >> 10} KiB, {rate(count, opened if closed else start)}, "
          f"longest pause {pause * 1e3:.0f} ms")


def source(host, port, count, closed):
    count, closed = int(count), float(closed)
    stream = connect(host, port, 1 << 16)
    time.sleep(closed)
    waiting = struct.unpack("i", fionread(stream))[0]
    whole = PATTERN * ((1 << 18) // len(PATTERN) + 2)

    def check(at, piece):
        begin = at % len(PATTERN)
        if whole[begin:begin + len(piece)] != piece:
            raise Fault(f"wrong bytes behind {at}")

    start = time.monotonic()
    came, pause = read(stream, check)
    if came != count:
        raise Fault(f"{came} of {count} bytes came")
    print(f"waiting for {closed:.0f} s: {waiting >> 10} KiB; then {came >> 10} KiB, "
          f"{rate(came, start)}, longest pause {pause * 1e3:.0f} ms")


def take(host, port, name):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, int(port)))
    listener.listen(1)
    listener.settimeout(STALL)
    stream, _ = listener.accept()
    stream.settimeout(STALL)
    came, start = hashlib.sha256(), time.monotonic()
    count, pause = read(stream, lambda _, piece: came.update(piece))
    stream.close()
    with open(name, "rb") as file:
        want = hashlib.file_digest(file, "sha256").hexdigest()
    if came.hexdigest() != want:
        raise Fault(f"{count} bytes came with the hash {came.hexdigest()} instead of {want}")
    print(f"took {count >> 10} KiB, {rate(count, start)}, longest pause {pause * 1e3:.0f} ms")


def give(host, port, name):
    stream, start = connect(host, port), time.monotonic()
    with open(name, "rb") as file:
        count = stream.sendfile(file)
    stream.shutdown(socket.SHUT_WR)
    if stream.recv(1):
        raise Fault("bytes came from one who only receives")
    print(f"gave {count >> 10} KiB, {rate(count, start)}")


def measured(seconds, words):
    told = json.load(sys.stdin)
    streams = 3 if "--parallel 3" in words else 2 if "--bidir" in words else 1
    flows, ends, rates = told["end"]["streams"], [""], []
    if len(flows) != streams:
        raise Fault(f"{words}: {len(flows)} streams instead of {streams}")
    for flow in flows:
        # Who was never served is part of no sum.
        if not 1 << 16 <= flow["receiver"]["bytes"] <= flow["sender"]["bytes"]:
            raise Fault(f"{words}: {flow}")
    if "--bidir" in words:
        ends.append("_bidir_reverse")
    for end in ends:
        total = told["end"][f"sum_received{end}"]
        if not 0.8 * float(seconds) < total["seconds"] < 1.5 * float(seconds) + 1:
            raise Fault(f"{words}: {total}")
        rates.append(f"{total['bits_per_second'] / 1e6:.0f} Mbit/s")
    silent = sum(one["sum"]["bytes"] == 0 for one in told["intervals"])
    if silent:
        raise Fault(f"{words}: nothing moved in {silent} seconds")
    print(f"{words or 'forward'} {' and '.join(rates)}")


def fionread(stream):
    import fcntl
    import termios
    return fcntl.ioctl(stream, termios.FIONREAD, b"\0" * 4)


def memory(process):
    """Bytes of memory that a process really has."""
    with open(f"/proc/{process}/status", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
    raise Fault(f"process {process} has no VmRSS")


class Many:
    """Connections that one thread looks after."""

    def __init__(self, host, port, count, each):
        self.count, self.each = count, each
        self.to = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self.poll = select.epoll()
        self.streams, self.places = [], {}
        self.sent, self.came = array.array("q", [0] * count), array.array("q", [0] * count)

    def start_one(self):
        stream = socket.socket(self.to[0], socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        stream.connect_ex(self.to[4])
        self.places[stream.fileno()] = len(self.streams)
        self.streams.append(stream)
        self.poll.register(stream.fileno(), select.EPOLLOUT)

    def events(self):
        found = self.poll.poll(CROWD_STALL)
        if not found:
            raise Fault(f"nothing for {CROWD_STALL} s: {len(self.streams)} connections, "
                        f"{sum(self.sent)} bytes sent, {sum(self.came)} came back")
        return found

    def open(self):
        """All connections, established at a time."""
        done = 0
        while done < self.count:
            while len(self.streams) < min(self.count, done + OPENING):
                self.start_one()
            for number, _ in self.events():
                stream = self.streams[self.places[number]]
                error = stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if error:
                    raise Fault(f"connection {done}: error {error}")
                self.poll.modify(number, 0)
                done += 1

    def exchange(self):
        """Bytes each way on all of them."""
        for stream in self.streams:
            self.poll.modify(stream.fileno(), select.EPOLLIN | select.EPOLLOUT)
        left = self.count
        while left:
            for number, event in self.events():
                place = self.places[number]
                if event & select.EPOLLOUT:
                    self.send(place, number)
                if event & ~select.EPOLLOUT:
                    left -= self.receive(place)

    def text(self, place):
        return memoryview(RANDOM)[place * 64 % (BLOCK // 2):][:self.each]

    def send(self, place, number):
        piece = self.text(place)[self.sent[place]:]
        self.sent[place] += self.streams[place].send(piece)
        if self.sent[place] == self.each:
            self.poll.modify(number, select.EPOLLIN)

    def receive(self, place):
        """Whether that was the last of it."""
        piece = self.streams[place].recv(1 << 16)
        at = self.came[place]
        if not piece:
            raise Fault(f"connection {place}: ended behind {at}")
        if self.text(place)[at:at + len(piece)] != piece:
            raise Fault(self.wrong(place, at, piece))
        self.came[place] += len(piece)
        return self.came[place] == self.each


    def wrong(self, place, at, piece):
        """Where wrong bytes are, and where in the stream they would be right."""
        want = self.text(place)[at:][:len(piece)]
        first = next((at for at, byte in enumerate(want) if piece[at] != byte), len(want))
        found = RANDOM.find(piece[first:first + 8])
        stream = self.streams[place].getsockname()
        return (f"connection {place} from {stream}: of {len(piece)} bytes behind {at} those from "
                f"{first} on are wrong; they would be right at {found - place * 64 % (BLOCK // 2)}")


def many(host, port, count, each, process):
    count, each = int(count), int(each)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, count + 100))
    before = memory(process)
    all_of_them = Many(host, port, count, each)
    start = time.monotonic()
    all_of_them.open()
    opened = time.monotonic()
    established = memory(process)
    all_of_them.exchange()
    ended = time.monotonic()
    after = memory(process)
    print(f"opened {count} in {opened - start:.1f} s, {each} bytes each way on all in "
          f"{ended - opened:.1f} s; memory of the server {before >> 20} MiB before, "
          f"{established >> 20} established, {after >> 20} after: "
          f"{after // count} bytes a connection, all that was set aside for it included")


def checksum(data):
    words = array.array("H", data)
    words.byteswap()
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def syn(host, port, macs, number):
    """A frame that asks for a connection; the number decides from where."""
    address = struct.pack("!I", 0xC6120000 + number * 7919 % (1 << 17))
    to = socket.inet_aton(host)
    tcp = struct.pack("!HHIIBBHHHBBH", 1024 + number % 60000, port, number * 2654435761 % (1 << 32),
                      0, 6 << 4, 2, 64240, 0, 0, 2, 4, 1460)
    pseudo = address + to + struct.pack("!HH", 6, len(tcp))
    tcp = tcp[:16] + struct.pack("!H", checksum(pseudo + tcp)) + tcp[18:]
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), number % 65536, 0x4000, 64, 6, 0)
    head += address + to
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    return macs + b"\x08\x00" + head + tcp


def flood(host, port, count, process, interface, mac):
    port, count = int(port), int(count)
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    wire.bind((interface, 0))
    macs = bytes.fromhex(mac.replace(":", "")) + wire.getsockname()[4]
    stream = connect(host, port)

    def around(number):
        text = block(number)[:1000]
        stream.sendall(text)
        back = b""
        while len(back) < len(text):
            piece = stream.recv(len(text))
            if not piece:
                raise Fault("the established connection ended")
            back += piece
        if back != text:
            raise Fault("the established connection gave back other bytes")

    def segments(begin, end):
        for number in range(begin, end):
            try:
                wire.send(syn(host, port, macs, number))
            except BlockingIOError:
                pass
            except OSError as error:
                if error.errno != 105:
                    raise

    around(0)
    # What the first of them take once is not what a flood takes.
    segments(0, WARM)
    around(1)
    before = memory(process)
    flooding = threading.Thread(target=segments, args=(WARM, WARM + count), daemon=True)
    start = time.monotonic()
    flooding.start()
    rounds = 0
    while flooding.is_alive():
        around(rounds)
        rounds += 1
    took = time.monotonic() - start
    around(rounds)
    after = memory(process)
    if abs(after - before) > SLACK:
        raise Fault(f"memory went from {before} to {after} bytes")
    connect(host, port).close()
    print(f"sent {count} segments in {took:.1f} s, {rounds} times to and fro meanwhile; memory "
          f"{before >> 10} KiB before, {after >> 10} KiB after")


WARM = 20000
RANDOM = random.Random(1).randbytes(BLOCK)


def main():
    commands = {"echo": echo, "source": source, "take": take, "give": give, "measured": measured,
                "many": many, "flood": flood}
    try:
        commands[sys.argv[1]](*sys.argv[2:])
    except (Fault, OSError) as fault:
        print(f"{type(fault).__name__}: {fault}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
