// puppet: a libibverbs peer that does what it is told, line by line over TCP, so that one run of it
// serves many queue pairs and operations.  Runs in the rxe-peer guest (or anywhere with libibverbs).
//
//   puppet [-d DEV] [-b BYTES] PORT      obeys one caller after the other, until it is killed
//
// Each line is answered by one line, which begins with "ok" or "no".  Numbers are decimal unless it
// says hex.  Memory is one region of BYTES (default 4 MiB) with all rights; offsets are in it.
// Byte i of a pattern is (i * 7 + SEED + (i >> 8)) & 0xff.
//   open rc|uc|ud MTU GID_INDEX TIMEOUT   a new queue pair, after the old one is gone:
//                                         ok qpn psn rkey addr qkey gid, all hex
//   join QPN PSN GID                      all hex: the other end; then it sends and receives
//   fill OFF LEN SEED                     writes a pattern
//   check OFF LEN SEED                    compares with a pattern; "no" names the first wrong byte
//   post OFF LEN                          a receive (of a datagram: 40 bytes more, before it)
//   recv                                  waits for a receive: ok OPCODE LEN IMM(hex, or -)
//   send|write OFF LEN ADDR RKEY          ADDR and RKEY hex, 0 for sends; waits until it is done
//   sendimm|writeimm OFF LEN ADDR RKEY IMM
//   read OFF LEN ADDR RKEY
//   fadd OFF ADDR RKEY ADD                8 bytes; operands hex
//   cswap OFF ADDR RKEY COMPARE SWAP
//   word OFF                              ok the 64-bit word there, hex
// What is not done in 20 s is answered with "no"; after a "no" about a request, open another one.
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 20, GRH = 40, QKEY = 0x11111111, READS = 16 };

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *sends, *receives;
static struct ibv_qp *qp;
static struct ibv_ah *ah;
static uint8_t *bytes;
static size_t size = 4 << 20;
static enum ibv_qp_type type;
static unsigned mtu, gid_index, timeout_code, psn, other_qpn;

static void die(const char *what) {
  fprintf(stderr, "puppet: %s: %s\n", what, strerror(errno));
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static uint8_t pattern(size_t i, unsigned seed) { return i * 7 + seed + (i >> 8); }

static int inside(size_t off, size_t len) { return off <= size && len <= size - off; }

static int wait_for(struct ibv_cq *cq, struct ibv_wc *wc) {
  double end = now() + SECONDS;
  int n;
  while (!(n = ibv_poll_cq(cq, 1, wc)))
    if (now() > end) return 0;
    else usleep(100);
  return n > 0;
}

static void forget(void) {
  struct ibv_wc wc;
  if (ah) ibv_destroy_ah(ah);
  if (qp) ibv_destroy_qp(qp);
  ah = 0;
  qp = 0;
  while (ibv_poll_cq(sends, 1, &wc) > 0) ;
  while (ibv_poll_cq(receives, 1, &wc) > 0) ;
}

static void open_pair(const char *service, char *answer) {
  forget();
  type = !strcmp(service, "uc") ? IBV_QPT_UC : !strcmp(service, "ud") ? IBV_QPT_UD : IBV_QPT_RC;
  struct ibv_qp_init_attr how = { .send_cq = sends, .recv_cq = receives, .qp_type = type, .cap = { 64, 64, 1, 1, 0 } };
  if (!(qp = ibv_create_qp(pd, &how))) { sprintf(answer, "no queue pair: %s", strerror(errno)); return; }
  struct ibv_qp_attr at = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
  at.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (type == IBV_QPT_RC) at.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  int last = type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  if (ibv_modify_qp(qp, &at, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last)) { sprintf(answer, "no INIT: %s", strerror(errno)); return; }
  union ibv_gid gid;
  if (ibv_query_gid(ctx, 1, gid_index, &gid)) { sprintf(answer, "no GID %u", gid_index); return; }
  psn = random() & 0xffffff;
  answer += sprintf(answer, "ok %x %x %x %llx %x ", qp->qp_num, psn, mr->rkey, (unsigned long long)(uintptr_t)bytes, QKEY);
  for (int i = 0; i < 16; i++) answer += sprintf(answer, "%02x", gid.raw[i]);
}

static void join(unsigned qpn, unsigned their_psn, const char *hex, char *answer) {
  struct ibv_ah_attr way = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = gid_index, .hop_limit = 64 } };
  for (int i = 0; i < 16; i++) { unsigned x = 0; sscanf(hex + 2 * i, "%2x", &x); way.grh.dgid.raw[i] = x; }
  unsigned code = mtu >= 4096 ? 5 : mtu >= 2048 ? 4 : mtu >= 1024 ? 3 : mtu >= 512 ? 2 : 1;
  struct ibv_qp_attr at = { .qp_state = IBV_QPS_RTR, .path_mtu = code, .dest_qp_num = qpn, .rq_psn = their_psn,
    .max_dest_rd_atomic = READS, .min_rnr_timer = 12, .ah_attr = way };
  int mask = IBV_QP_STATE;
  if (type != IBV_QPT_UD) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (type == IBV_QPT_RC) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (!qp || ibv_modify_qp(qp, &at, mask)) { sprintf(answer, "no RTR: %s", strerror(errno)); return; }
  struct ibv_qp_attr to = { .qp_state = IBV_QPS_RTS, .sq_psn = psn, .timeout = timeout_code, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = READS };
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (type == IBV_QPT_RC) mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  if (ibv_modify_qp(qp, &to, mask)) { sprintf(answer, "no RTS: %s", strerror(errno)); return; }
  if (type == IBV_QPT_UD && !(ah = ibv_create_ah(pd, &way))) { sprintf(answer, "no way there: %s", strerror(errno)); return; }
  other_qpn = qpn;
  strcpy(answer, "ok");
}

static void post(size_t off, size_t len, char *answer) {
  size_t head = type == IBV_QPT_UD ? GRH : 0;
  struct ibv_sge piece = { (uintptr_t)bytes + off - head, len + head, mr->lkey };
  struct ibv_recv_wr work = { .sg_list = &piece, .num_sge = len + head ? 1 : 0 }, *bad;
  if (!qp || off < head || !inside(off, len) || ibv_post_recv(qp, &work, &bad)) strcpy(answer, "no receive");
  else strcpy(answer, "ok");
}

static void receive(char *answer) {
  struct ibv_wc wc;
  if (!wait_for(receives, &wc)) { strcpy(answer, "no message"); return; }
  if (wc.status) { sprintf(answer, "no receive: %s", ibv_wc_status_str(wc.status)); return; }
  unsigned head = type == IBV_QPT_UD ? GRH : 0;
  answer += sprintf(answer, "ok %d %u ", wc.opcode, wc.byte_len - head);
  if (wc.wc_flags & IBV_WC_WITH_IMM) sprintf(answer, "%x", ntohl(wc.imm_data));
  else strcpy(answer, "-");
}

static void carry_out(struct ibv_send_wr *work, size_t off, size_t len, char *answer) {
  struct ibv_sge piece = { (uintptr_t)bytes + off, len, mr->lkey };
  struct ibv_send_wr *bad;
  struct ibv_wc wc;
  work->sg_list = &piece;
  work->num_sge = len ? 1 : 0;
  work->send_flags = IBV_SEND_SIGNALED;
  if (type == IBV_QPT_UD) { work->wr.ud.ah = ah; work->wr.ud.remote_qpn = other_qpn; work->wr.ud.remote_qkey = QKEY; }
  if (!qp || !inside(off, len)) { strcpy(answer, "no such memory"); return; }
  int e = ibv_post_send(qp, work, &bad);
  if (e) { sprintf(answer, "no request: %s", strerror(e)); return; }
  if (!wait_for(sends, &wc)) strcpy(answer, "no completion");
  else if (wc.status) sprintf(answer, "no request: %s", ibv_wc_status_str(wc.status));
  else strcpy(answer, "ok");
}

static void obey(char *line, char *answer) {
  char word[16], text[40];
  size_t off, len;
  unsigned a, b, imm = 0;
  unsigned long long addr, x, y;
  struct ibv_send_wr work = { 0 };
  if (sscanf(line, "%15s", word) != 1) strcpy(answer, "no words");
  else if (sscanf(line, "open %39s %u %u %u", text, &mtu, &gid_index, &timeout_code) == 4) open_pair(text, answer);
  else if (sscanf(line, "join %x %x %39s", &a, &b, text) == 3 && strlen(text) == 32) join(a, b, text, answer);
  else if (sscanf(line, "fill %zu %zu %u", &off, &len, &a) == 3 && inside(off, len)) {
    for (size_t i = 0; i < len; i++) bytes[off + i] = pattern(i, a);
    strcpy(answer, "ok");
  } else if (sscanf(line, "check %zu %zu %u", &off, &len, &a) == 3 && inside(off, len)) {
    size_t i = 0;
    while (i < len && bytes[off + i] == pattern(i, a)) i++;
    if (i == len) strcpy(answer, "ok");
    else sprintf(answer, "no byte %zu is %02x, not %02x", i, bytes[off + i], pattern(i, a));
  } else if (sscanf(line, "post %zu %zu", &off, &len) == 2) post(off, len, answer);
  else if (!strcmp(word, "recv")) receive(answer);
  else if (sscanf(line, "word %zu", &off) == 1 && inside(off, 8)) sprintf(answer, "ok %llx", *(unsigned long long *)(bytes + off));
  else if (sscanf(line, "fadd %zu %llx %x %llx", &off, &addr, &a, &x) == 4) {
    work.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    work.wr.atomic.remote_addr = addr; work.wr.atomic.rkey = a; work.wr.atomic.compare_add = x;
    carry_out(&work, off, 8, answer);
  } else if (sscanf(line, "cswap %zu %llx %x %llx %llx", &off, &addr, &a, &x, &y) == 5) {
    work.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    work.wr.atomic.remote_addr = addr; work.wr.atomic.rkey = a; work.wr.atomic.compare_add = x; work.wr.atomic.swap = y;
    carry_out(&work, off, 8, answer);
  } else if (sscanf(line, "%*s %zu %zu %llx %x %x", &off, &len, &addr, &a, &imm) >= 4) {
    work.opcode = !strcmp(word, "send") ? IBV_WR_SEND : !strcmp(word, "sendimm") ? IBV_WR_SEND_WITH_IMM
      : !strcmp(word, "write") ? IBV_WR_RDMA_WRITE : !strcmp(word, "writeimm") ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_READ;
    work.imm_data = htonl(imm);
    if (type != IBV_QPT_UD) { work.wr.rdma.remote_addr = addr; work.wr.rdma.rkey = a; }
    carry_out(&work, off, len, answer);
  } else sprintf(answer, "no such words: %.40s", line);
}

static void serve(FILE *in, int out) {
  char line[256], answer[256];
  while (fgets(line, sizeof line, in)) {
    line[strcspn(line, "\r\n")] = 0;
    obey(line, answer);
    strcat(answer, "\n");
    if (write(out, answer, strlen(answer)) < 0) break;
  }
}

int main(int count, char **words) {
  const char *name = "rxe0";
  int c, devices, one = 1;
  while ((c = getopt(count, words, "d:b:")) != -1)
    if (c == 'd') name = optarg;
    else if (c == 'b') size = strtoul(optarg, 0, 10);
    else return 2;
  if (optind + 1 != count) { fprintf(stderr, "puppet: need a port (see puppet.c)\n"); return 2; }
  struct ibv_device **list = ibv_get_device_list(&devices), *device = 0;
  for (int i = 0; i < devices; i++) if (!strcmp(ibv_get_device_name(list[i]), name)) device = list[i];
  if (!device || !(ctx = ibv_open_device(device)) || !(pd = ibv_alloc_pd(ctx))) die(name);
  if (posix_memalign((void **)&bytes, 4096, size)) die("memory");
  memset(bytes, 0, size);
  int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  if (!(mr = ibv_reg_mr(pd, bytes, size, rights))) die("region");
  if (!(sends = ibv_create_cq(ctx, 256, 0, 0, 0)) || !(receives = ibv_create_cq(ctx, 256, 0, 0, 0))) die("completion queue");
  srandom(time(0) ^ getpid());
  struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_port = htons(atoi(words[optind])) };
  int door = socket(AF_INET6, SOCK_STREAM, 0);
  setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(door, (struct sockaddr *)&at, sizeof at) || listen(door, 4)) die(words[optind]);
  for (;;) {
    int caller = accept(door, 0, 0);
    if (caller < 0) die("accept");
    setsockopt(caller, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    FILE *in = fdopen(dup(caller), "r");
    if (in) { serve(in, caller); fclose(in); }
    close(caller);
    forget();
  }
}
