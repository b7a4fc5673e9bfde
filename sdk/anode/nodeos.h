/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * anode/nodeos.h: the NodeOS interface for execution environments and applications in processes of their own.
 *
 *     #include <anode/nodeos.h>                       cc -I sdk ee.c -lanode1
 *
 *     static void deliver(an_InChan_t chan, an_PacketBuffer_t packet, const struct an_Ends *ends, void *out)
 *     {
 *         if (an_outchanSend(out, 0, packet))
 *             an_pktbufFree(packet);
 *     }
 *
 * Objects and specifications. An object (an_Domain_t, an_InChan_t …) is a pointer to a structure that programs never see. It lives
 * from the call that creates it to the call that destroys it, or to the end of its domain or connection. A specification
 * (struct an_…Spec, a text, a key) is a value whose life is one call: the call reads it and neither changes nor keeps it, so its
 * memory may be used again or freed as soon as the call returns, and several calls may read it at the same time. Objects can
 * be part of specifications, never the other way round.
 *
 * Memory. With mem == 0 an object needs no memory of the program's (the implicit model). With mem != 0 the object is that memory: at
 * least an_objectSize() bytes, aligned to 16, of no other living object (the explicit model). Destroying it does not free the memory.
 *
 * Errors. A call that creates gives the object, or 0 and an_error() says why. Any other call gives AN_OK or the error's number.
 * Any call may be given any pointer as an object: what is not a living object of that kind is refused (AN_EINVAL: 0, or an
 * object of another kind; AN_ESTALE: gone, or never was one; AN_EACCES: of another connection). Pointers to specifications, texts and
 * results must be 0 or lead to what their types say. Every call that asks the node can also give AN_ESHUTDOWN.
 *
 * Threads. Every call may be made by any thread at any time, also in functions that the library calls. Functions of a program
 * (deliver functions and so on) are run by the threads of their domain: at most maxthreads at the same time. A domain's threads should
 * not wait for long: while they do, the domain's packets wait, and are dropped when there are too many.
 *
 * In the node's process. The same program, built as a shared object (cc -shared -fPIC -I sdk ee.c -o ee.so), is run by a node that trusts
 * it ([[ee]] with library): its main function by a thread of its own, and the functions that it wants called by the node's thread, one at
 * a time: they get packets as they came, without a copy, and the node works at nothing else until they return. They make no call about
 * files (AN_EINVAL), and an_outchanSend() says at once why a packet cannot go. Only functions of an_threadCreate() have threads of the
 * domain's. an_nodeConnect() without a path, by the thread that runs main, connects to that node. When main returns all ends.
 *
 * As a module. The same program, compiled for WebAssembly (clang --target=wasm32, docs/nodeos.md), is run by the node in a sandbox in a
 * process of its own ([[ee]] with module). It has one thread: that of main runs all functions while it is in an_domainWait() or
 * an_threadEnter(). It connects once, and has no heaps (an_heapCreate()): its memory is its own.
 *
 * Units. Bytes, milliseconds, nanoseconds as named. Ports are in the host's byte order, addresses in the network's.
 */
#ifndef ANODE_NODEOS_H
#define ANODE_NODEOS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __wasm__
#pragma clang attribute push(__attribute__((import_module("nodeos"))), apply_to = function)
#endif
#ifdef __cplusplus
extern "C" {
#endif

/** The version of this interface; the library's name ends with it. */
#define AN_NODEOS_API 1

/** Why a call failed. */
enum an_error {
    AN_OK = 0,
    /** An argument is outside what the call takes. */
    AN_EINVAL = 1,
    /** The object has been destroyed, or its domain has ended. */
    AN_ESTALE = 2,
    /** The object belongs to a domain outside the caller's subtree, or the role lacks the right. */
    AN_EACCES = 3,
    /** The domain has all it was granted of this. */
    AN_ELIMIT = 4,
    /** Another channel has this address and key, or a file of this name exists. */
    AN_EEXIST = 5,
    /** No interface, route or file of this name. */
    AN_ENOENT = 6,
    /** The node itself, or this process, has no more of this. */
    AN_ENOSPC = 7,
    /** The packet is larger than the link carries. */
    AN_EMSGSIZE = 8,
    /** The channel's bandwidth or queue is used up for now. */
    AN_EAGAIN = 9,
    /** This node, or this protocol, does not offer it. */
    AN_ENOSYS = 10,
    /** The connection to the node has ended, and all objects with it. */
    AN_ESHUTDOWN = 11,
    /** The file system below failed. */
    AN_EIO = 12,
    /** The process has no memory left for this, or the system no thread for it. */
    AN_ENOMEM = 13,
    /** What is kept is not what was expected. */
    AN_ECHANGED = 14,
};

/** Why the calling thread's last call failed; AN_OK if it did not. */
int an_error(void);
/** A line about an error; lives for ever. */
const char *an_strerror(int error);
/** Bytes of the memory that stands for an object in the explicit model. */
size_t an_objectSize(void);

/** Says a line of up to 1024 bytes: on the standard error of a process, which the node that has started it writes into its log. */
int an_say(const char *line);

/* ---- objects ---- */

/** A connection to a node. */
typedef struct an_Node *an_Node_t;
/** Who owns and pays. */
typedef struct an_Domain *an_Domain_t;
/** What a domain may use. */
typedef struct an_Cred *an_Cred_t;
/** What holds memory. */
typedef struct an_MemPool *an_MemPool_t;
/** Memory of this process that is charged to a pool. */
typedef struct an_Heap *an_Heap_t;
/** Packets come by it. */
typedef struct an_InChan *an_InChan_t;
/** Packets go by it. */
typedef struct an_OutChan *an_OutChan_t;
/** Packets go through it. */
typedef struct an_CutChan *an_CutChan_t;
/** A packet in its buffer. */
typedef struct an_PacketBuffer *an_PacketBuffer_t;
/** A thread that works for a domain; no object, and taken by no call. */
typedef struct an_Thread *an_Thread_t;
/** Something to come at a time. */
typedef struct an_Event *an_Event_t;
/** An open file. */
typedef struct an_File *an_File_t;
/** Values under keys, which domains share. */
typedef struct an_Store *an_Store_t;
/** A store as it was at a time. */
typedef struct an_Snapshot *an_Snapshot_t;
/** Tells of changes in a store. */
typedef struct an_Watch *an_Watch_t;
/** TCP streams come by it. */
typedef struct an_StreamChan *an_StreamChan_t;
/** Bytes both ways, in order, until an end. */
typedef struct an_Stream *an_Stream_t;

/** Protocols that the program teaches, and rules over them. */
typedef struct an_Classifier *an_Classifier_t;

/* ---- specifications ---- */

/** The threads of a domain. */
typedef struct an_ThreadPoolSpec {
    /** How many work at the same time: 1 to 64, and at most what the role grants. */
    int maxthreads;
    /** Bytes of a stack, up to 64 MiB; 0: the system's default. */
    unsigned int stackbytes;
    /** 1: the program brings the threads itself, by an_threadEnter(); 0: the library starts them. */
    int own;
    /* * Milliseconds that a thread may work on one packet, event or exception; one that takes longer has its domain
     * ended by the node, which looks every tenth of a second. 0: as many as the role grants (grants.thread_ms).
     * Functions of an_threadCreate() may take as long as they like. */
    unsigned int holdms;
} const *an_ThreadPoolSpec_t;

/** How to connect. */
typedef struct an_NodeSpec {
    /* * The node's socket (nodeos.sock in its run directory); 0: the descriptor that a node gives what it starts
     * (ANODE_NODEOS_FD), else the path in the environment variable ANODE_NODEOS. */
    const char *path;
    /** A title for people, up to 64 characters; 0: "process". */
    const char *title;
    /** What the connection's domain may use; 0: what the node grants anyone. */
    an_Cred_t cred;
    /** Its threads; 0: one. */
    an_ThreadPoolSpec_t threads;
    /** For how many microseconds a thread looks for more before it sleeps, up to a second; it uses a processor meanwhile. */
    unsigned int busypoll_us;
} const *an_NodeSpec_t;

/** Called when a domain has ended by the node's or another's doing; its objects are of no use any more. */
typedef void (*an_DomainEndFunc)(an_Domain_t domain, void *arg);

/** A domain to be created. */
typedef struct an_DomainSpec {
    /** A title for people, up to 64 characters; 0: "domain". */
    const char *title;
    /** The pool its memory is charged to; 0: one of its own. */
    an_MemPool_t pool;
    /** What it may use; 0: what its parent may. */
    an_Cred_t cred;
    /** Is told when it has ended; may be 0. */
    an_DomainEndFunc endfunc;
    void *endarg;
} const *an_DomainSpec_t;

/** What a domain has used since it was created. */
struct an_Usage {
    /** Packets that came to it, and their bytes. */
    uint64_t packets, bytes;
    /** Packets it sent. */
    uint64_t forwarded;
    /** Its packets that were dropped. */
    uint64_t drops;
    /** Bytes of memory it holds in the node. */
    uint64_t memory_bytes;
    /** Nanoseconds of a processor: what the node's path scheduler has measured of it ([cpu] scheduler other than fifo), and for the
     * first domain of a process all that the process took. */
    uint64_t cpu_ns;
};

/** Called when a pool is over its limit: free memory, or give charges back, by the deadline (nanoseconds of the node's clock);
 * after it the node ends the pool's domains. */
typedef void (*an_OverrunFunc)(an_MemPool_t pool, uint64_t deadline_ns, void *arg);

/** A memory pool to be created. */
typedef struct an_MemPoolSpec {
    /** The pool it is part of; 0: that of the connection's domain. */
    an_MemPool_t parent;
    /** Bytes it may hold. */
    uint64_t limit;
    /** For how long its domains may stay over the limit, in milliseconds. */
    unsigned int deadline_ms;
    /** Is told of it; may be 0. */
    an_OverrunFunc overrunfunc;
    void *overrunarg;
} const *an_MemPoolSpec_t;

/** One comparison: of length bytes (1 to 8) at offset of the payload of the channel's last protocol, read as a big endian number,
 * those bits that mask has must be those of value. */
struct an_KeyTuple {
    unsigned int offset, length;
    uint64_t value, mask;
};

/** All of up to 4 comparisons must hold. */
typedef struct an_DemuxKey {
    int ntuples;
    const struct an_KeyTuple *tuples;
} const *an_DemuxKey_t;

/** What a channel may use. */
typedef struct an_NetSpec {
    /** Packets of it that are worked on at the same time; 0, or more than the domain has threads: as many as those. */
    int maxthreads;
    /** Bytes a second that it may send; 0: what the domain may. */
    unsigned int bandwidth;
    /** Packets that may wait, up to 65535; 0: 256. */
    int npbufs;
    /** Buffers of the program's own for it: 0. Those of a process are its connection's (else AN_ENOSYS). */
    an_PacketBuffer_t *pbufs;
} const *an_NetSpec_t;

/** One end of a packet. */
struct an_End {
    /** IPv6, or IPv4 as ::ffff:a.b.c.d, in the network's order. */
    uint8_t address[16];
    /** The port, in the host's order; 0 where the protocol has none. */
    uint16_t port;
    /** 1 if the channel's protocols say it; not read by an_outchanSend(). */
    uint16_t known;
};

/** Both ends. */
struct an_Ends {
    struct an_End source, destination;
};

/** Gets the packets of a channel: what its protocols have left, in packet, which is the function's to send or free; ends lives
 * during the call. */
typedef void (*an_ChanRecvFunc)(an_InChan_t chan, an_PacketBuffer_t packet, const struct an_Ends *ends, void *arg);
/** Called when an event is due; the event is no object any more. */
typedef void (*an_EventFunc)(an_Event_t event, void *arg);
/** Run by a thread of a domain. */
typedef void (*an_ThreadFunc)(void *arg);

/* ---- the node ---- */

/** Connects to a node: 0 for spec means all of its zeroes. The connection has a domain of its own (an_domainSelf()).
 * A process that the node has started gets the domain of its environment. AN_ENOENT: no node there, or no such role. AN_EACCES: not
 * for this user, or not the role it was started in. AN_ELIMIT: more threads than the role grants.
 * AN_ENOSPC: too many connections, here (64) or there. AN_EINVAL: a specification. Up to 64 connections of one process. */
an_Node_t an_nodeConnect(void *mem, an_NodeSpec_t spec);
/** Ends a connection with all its objects and waits until its threads are gone, unless one of them calls. Memory of packets
 * must not be used any more. */
int an_nodeDisconnect(an_Node_t node);
/** Nanoseconds of the node's clock, which never goes back, into *now. Asks nobody. */
int an_timeNow(an_Node_t node, uint64_t *now);

/** A credential for a role of the node's configuration. AN_EINVAL: no name, or one of over 1024 bytes. */
an_Cred_t an_credCreate(void *mem, const char *role);
/** Destroys it; what was created with it stays. */
int an_credDestroy(an_Cred_t cred);

/* ---- domains and threads ---- */

/** Creates a domain below parent; 0 for threads means one, 0 for spec all zeroes. It gets what its credential grants, nothing from
 * its parent. AN_ELIMIT: more domains or threads than granted, or more than 128 threads of one connection, which are all that the
 * node sees in another process. AN_ENOENT: no such role. AN_EACCES: a role that is more than the creator's. */
an_Domain_t an_domainCreate(void *mem, an_Domain_t parent, an_ThreadPoolSpec_t threads, an_DomainSpec_t spec);
/** Ends a domain and all below it. When it returns nothing comes for them any more, all they owned in the node is gone, and none of
 * their functions runs, whoever has ended them (AN_ESTALE: somebody else has). A function of theirs that calls waits for all others, and
 * they end when it returns; functions that end each other's domains do not wait for each other, nor does the node's own thread for
 * anything. So hold nothing that a function of theirs waits for. The object stays: destroy it. */
int an_domainTerminate(an_Domain_t domain);
/** The same if it has not ended yet; then its object and those of its channels, events, files … are gone too. */
int an_domainDestroy(an_Domain_t domain);
/** The domain that the calling thread works for, or else the connection's own. Not a new object. */
an_Domain_t an_domainSelf(an_Node_t node);
/** What a domain has used, into *usage. */
int an_domainUsage(an_Domain_t domain, struct an_Usage *usage);
/** Waits until a domain has ended, or the connection. AN_EINVAL: called by a thread of a domain. */
int an_domainWait(an_Domain_t domain);

/** Has a thread of a domain run a function. There is no call that ends a thread: it ends by returning. AN_EAGAIN: 1024 wait already. */
int an_threadCreate(an_Domain_t domain, an_ThreadFunc func, void *arg);
/** Lends the calling thread to a domain for so many milliseconds, or until the domain has ended (-1), which gives AN_ESTALE.
 * AN_ELIMIT: it has maxthreads already. AN_EINVAL: the caller is a thread of a domain. */
int an_threadEnter(an_Domain_t domain, int64_t milliseconds);
/** The calling thread's name, only to be compared with others: as long as it works for a domain no other thread has it. AN_EINVAL:
 * it works for none. */
an_Thread_t an_threadSelf(void);
/** Has the calling thread leave its domain when the function that it runs has returned; the domain has a place for another then
 * (an_threadEnter()). In a function of an a-flow that is the domain above, whose thread it is: the a-flow stays. AN_EINVAL: it works
 * for none, or is the node's own. */
int an_threadExit(void);
/** Lets other threads go first. */
void an_threadYield(void);

/* ---- a-flows ---- */

/** An a-flow to be created. */
typedef struct an_FlowSpec {
    /** A title for people, up to 64 characters; 0: "flow". */
    const char *title;
    /** The pool its memory is charged to; 0: one of its own. */
    an_MemPool_t pool;
    /** What it may use; 0: what its parent may. */
    an_Cred_t cred;
    /** How many of its parent's threads work for it at the same time, up to 64; 0: 1. */
    int maxthreads;
    /** As in an_ThreadPoolSpec. */
    unsigned int holdms;
    /** Timers (an_eventSchedule()) of it that may wait at the same time; 0: as many as its role grants. */
    unsigned int ntimers;
    /** They come at multiples of so many milliseconds of the node's clock, up to a day; 0: at any time. */
    unsigned int timer_ms;
    /** The program's: an_flowState(). */
    void *state;
    /** Is told when it has ended, with its state; may be 0. */
    an_DomainEndFunc endfunc;
} const *an_FlowSpec_t;

/** Run for an a-flow. */
typedef void (*an_FlowFunc)(an_Domain_t flow, void *state);

/* An a-flow computes for one user, or for many: a domain with a share of its own, to which its channels (an_inchanCreate(), also of rules)
 * bring packets and its timers (an_eventSchedule()) time. It has no threads: those of its parent run its functions, and a-flows that have
 * something to do take turns. So one that has nothing to do costs no time, and there may be 100,000. All calls take one where
 * they take a domain, but an_domainCreate(), an_flowCreate() and an_threadEnter() (AN_EINVAL): nothing is below it. */

/** Creates an a-flow below parent; 0 for spec means all zeroes. Ended by an_domainDestroy(). AN_ELIMIT: more domains, or threads at the
 * same time, than granted. AN_EINVAL: a specification, or parent is an a-flow. AN_ENOENT, AN_EACCES: as an_domainCreate(). */
an_Domain_t an_flowCreate(void *mem, an_Domain_t parent, an_FlowSpec_t spec);
/** Has one of its threads run a function, which may take as long as it likes. AN_EAGAIN: 1024 functions and packets wait already.
 * AN_EINVAL: not an a-flow. */
int an_flowRun(an_Domain_t flow, an_FlowFunc func);
/** Its state; with 0 that of the a-flow for which the calling thread works. AN_EINVAL: not an a-flow. */
void *an_flowState(an_Domain_t flow);

/* ---- events ---- */

/** Has func called once in so many milliseconds (up to ten years). The object is gone when it is called. AN_ELIMIT: the domain has
 * as many as granted, or its a-flow as many as it may have. */
an_Event_t an_eventSchedule(void *mem, an_Domain_t domain, uint64_t delay_ms, an_EventFunc func, void *arg);
/** Takes an event back: func is not called. AN_ESTALE: it is being called, or was. */
int an_eventCancel(an_Event_t event);

/* ---- soft state ---- */

/** What a domain keeps under one key: 64 bytes. The calls that count, compare and raise work with word[0]. */
struct an_StateValue {
    uint64_t word[8];
};

/* A domain's soft state is in the node, with that of all others: a value under each key, for a time. It may vanish early, and ends with
 * its domain. Each call is one step: nobody's change comes between what it reads and what it keeps. Where nothing is kept a value
 * is zeroes. Kept for keep_ms milliseconds, at most as long as the role's limits say; 0 removes it. AN_ELIMIT: the domain has
 * as many entries as its role's limits give it (state_entries), or the table has no place for this one; nothing has changed then. */

/** Reads what is kept under a key, into *value. AN_ENOENT: nothing; AN_ELIMIT: it cannot be read. Then *value is zeroes. */
int an_stateGet(an_Domain_t domain, uint64_t key, struct an_StateValue *value);
/** Keeps a value. */
int an_statePut(an_Domain_t domain, uint64_t key, const struct an_StateValue *value, unsigned int keep_ms);
/** Adds to word[0] (modulo 2^64); the sum, into *sum, which may be 0. */
int an_stateAdd(an_Domain_t domain, uint64_t key, uint64_t delta, unsigned int keep_ms, uint64_t *sum);
/** Raises word[0] to least if it is lower; what it is then, into *most, which may be 0. */
int an_stateMax(an_Domain_t domain, uint64_t key, uint64_t least, unsigned int keep_ms, uint64_t *most);
/** Keeps a value if word[0] of what is there is expected. AN_ECHANGED: it is not, and nothing has changed. */
int an_stateExchange(an_Domain_t domain, uint64_t key, uint64_t expected, const struct an_StateValue *value,
                     unsigned int keep_ms);

/* ---- stores ---- */

/** How a store is made: bits. Refused if there is one of this name; kept when its domain ends, and the node. */
#define AN_STORE_EXCLUSIVE 1u
#define AN_STORE_PERSISTENT 2u

/** A store to be made. */
typedef struct an_StoreSpec {
    /** Bytes that it may hold: of each entry key, value and 128, old values that snapshots see among them; up to 64 MiB, 0: 64 KiB.
     * They are the domain's from now until the store ends. */
    uint64_t bytes;
    /** AN_STORE_…, or 0. */
    unsigned int flags;
} const *an_StoreSpec_t;

/** What is known of a store. */
struct an_StoreFacts {
    /** Changes so far: the number of the last one. */
    uint64_t version;
    /** Keys. */
    uint64_t keys;
    /** Bytes that it holds, and those that it may hold. */
    uint64_t bytes, limit;
};

/** Gets the keys of a list, with the bytes of their values and the numbers of the changes that have made them; 0: go on. */
typedef int (*an_StoreKeyFunc)(const void *key, size_t keybytes, size_t bytes, uint64_t version, void *arg);
/** Called by a thread of the watch's domain when something has changed: an_watchRead() says what. */
typedef void (*an_WatchFunc)(an_Watch_t watch, void *arg);
/** Gets changes: of which key, the change's number, and 1 if nothing is there any more. */
typedef void (*an_StoreChangeFunc)(const void *key, size_t keybytes, uint64_t version, int deleted, void *arg);

/* Named stores are in the node, for domains that share values without sharing memory. A store is a holder's, as files are: of an
 * [[ee]] by its name, or of a process by its title. All domains of the holder may change it, others as far as it is shared with
 * them. It ends with the domain that has made it, unless it is persistent: then a domain of the holder opens it again by its name.
 * A key is 1 to 1024 bytes, a value up to 65536. Each change has a number, its version, and is one step. Functions that the node's own
 * thread calls (an object in its process) use the first worker's stores only, and change no persistent one (AN_EINVAL). */

/** The store of this name, of a holder (0: the domain's own), and makes it as spec says (0: it is not made) if there is none of the
 * domain's own holder. What it has kept it has again. AN_ENOENT: none. AN_EACCES: not shared so far, or the domain is no environment's.
 * AN_EEXIST: AN_STORE_EXCLUSIVE, and there is one. AN_ELIMIT: the domain's memory, 64 stores of a domain, or what the role grants of
 * files. AN_ENOSYS: persistent, and the node keeps no files. AN_EIO: what was kept is damaged; the node's log says where. */
an_Store_t an_storeOpen(void *mem, an_Domain_t domain, const char *holder, const char *name, an_StoreSpec_t spec);
/** The object is gone; the store stays. */
int an_storeClose(an_Store_t store);
/** Ends a store of the domain's own holder with all in it, and the object. */
int an_storeRemove(an_Store_t store);
/** Reads what is under a key, in a snapshot or (0) now: its bytes to value, where room bytes are, how many into *bytes, the number of
 * the change that put it into *version, which may be 0. AN_ENOENT: nothing. AN_EINVAL: there are more than room; *bytes says how many. */
int an_storeGet(an_Store_t store, an_Snapshot_t snapshot, const void *key, size_t keybytes, void *value, size_t room,
                size_t *bytes, uint64_t *version);
/** Keeps a value. expected: 0, or the version that has to be there (0: nothing may be); *version, which may be 0, gets the new one.
 * AN_ECHANGED: another version is there. AN_ELIMIT: the store is full. */
int an_storePut(an_Store_t store, const void *key, size_t keybytes, const void *value, size_t bytes, const uint64_t *expected,
                uint64_t *version);
/** The same, until the domain ends for which the store was opened: that of a process, an a-flow's, any. Then the key is taken away, and
 * watches tell so; if somebody else has put or registered it since, it is his. AN_ELIMIT: also 1024 of a store that end with one domain.
 * AN_ENOSYS: the store is persistent. */
int an_storeRegister(an_Store_t store, const void *key, size_t keybytes, const void *value, size_t bytes, const uint64_t *expected,
                     uint64_t *version);
/** Takes a key and its value away. AN_ENOENT: there is none. */
int an_storeDelete(an_Store_t store, const void *key, size_t keybytes, const uint64_t *expected, uint64_t *version);
/** Calls func for each key that begins with prefix, in their order, in this call. The list of a store that changes meanwhile has each
 * key that is there all the time; that of a snapshot is of one moment. */
int an_storeList(an_Store_t store, an_Snapshot_t snapshot, const void *prefix, size_t prefixbytes, an_StoreKeyFunc func, void *arg);
/** Lets another holder ("*": all) use a store of the domain's own: AN_ACCESS_… */
int an_storeShare(an_Store_t store, const char *with, int access);
/** What is known of a store, into *facts. */
int an_storeFacts(an_Store_t store, struct an_StoreFacts *facts);
/** Waits until the changes so far of a persistent store are on the disk. Without it they outlive the node's end, but not the host's. */
int an_storeSync(an_Store_t store);

/** Has a store be readable as it is now. AN_ELIMIT: 16 of a store, or of a domain. */
an_Snapshot_t an_snapshotCreate(void *mem, an_Store_t store);
/** Ends that. */
int an_snapshotDestroy(an_Snapshot_t snapshot);

/** Has func be called when a key with this beginning has changed, once until an_watchRead() is called; and again each second until then.
 * AN_ELIMIT: 64 of a store or of a domain, or the domain's memory: 24 KiB each. */
an_Watch_t an_watchCreate(void *mem, an_Store_t store, const void *prefix, size_t prefixbytes, an_WatchFunc func, void *arg);
/** Ends that. */
int an_watchDestroy(an_Watch_t watch);
/** Calls func for each change since the last time, in this call; *lost: how many more there were behind these, for which there was no
 * room (128, or 16 KiB of keys). Then what the program knows of the store is to be read again. AN_ESTALE: the store has ended. */
int an_watchRead(an_Watch_t watch, an_StoreChangeFunc func, void *arg, uint64_t *lost);

/* ---- memory ---- */

/** Creates a memory pool. AN_ELIMIT: more than the domain was granted. */
an_MemPool_t an_mempoolCreate(void *mem, an_Domain_t domain, an_MemPoolSpec_t spec);
/** Destroys one that no domain and no pool is part of (else the node's refusal, and it stays). */
int an_mempoolDestroy(an_MemPool_t pool);
/** Charges bytes that the program holds to a pool; negative: gives them back. AN_ELIMIT: it would be over its ceiling. */
int an_mempoolCharge(an_MemPool_t pool, int64_t bytes);

/** Creates a heap whose memory is charged to a pool, in pieces of 64 KiB; at most limit bytes, 0: as many as the pool has. */
an_Heap_t an_heapCreate(void *mem, an_MemPool_t pool, uint64_t limit);
/* * Zeroed memory, aligned to 16. AN_ELIMIT: over the heap's or the pool's limit. AN_ENOMEM: the process has none;
 * nothing is charged then. */
void *an_heapAlloc(an_Heap_t heap, size_t bytes);
/** Frees it. AN_EINVAL: not of this heap, or freed already. */
int an_heapFree(an_Heap_t heap, void *block);
/** Destroys a heap with all that is in it. */
int an_heapDestroy(an_Heap_t heap);

/* ---- packets ---- */

/** An empty packet. AN_ELIMIT: all of the connection are in use: 512, or fewer where the role
 * grants less than 5 MiB of memory. */
an_PacketBuffer_t an_pktbufAlloc(an_Domain_t domain);
/** Gives a packet back; its memory must not be used any more. */
int an_pktbufFree(an_PacketBuffer_t packet);
/** Where its bytes are. They are the program's until it sends or frees the packet. */
void *an_pktbufData(an_PacketBuffer_t packet);
/** How many there are, into *length. */
int an_pktbufLength(an_PacketBuffer_t packet, size_t *length);
/** Changes that at the end. What is new holds anything. AN_EINVAL: more than the buffer has (2048 with what is before the packet; in
 * the node's process 1952). */
int an_pktbufResize(an_PacketBuffer_t packet, size_t length);
/** Moves the beginning: bytes > 0 takes them off, < 0 makes room before it; 64 are there. AN_EINVAL: fewer are. */
int an_pktbufTrim(an_PacketBuffer_t packet, int64_t bytes);

/* ---- channels ---- */

/** Creates an incoming channel. protspec: "if0", "if0/ip", "if0/ip/udp", "if0/ip/tcp", "if0/anep", with a port's name or "*"
 * as well; addrspec: the addresses of the last protocol, "10.0.0.2:5000", "*:5000 -> …"; 0: all. docs/nodeos.md has both in full.
 * demuxkey and netspec may be 0. AN_ENOENT: no such port. AN_EEXIST: another has this address and key. AN_ELIMIT: no more
 * channels granted. AN_EINVAL: a specification, or deliverfunc is 0. */
an_InChan_t an_inchanCreate(void *mem, an_Domain_t domain, an_DemuxKey_t demuxkey, const char *protspec, const char *addrspec,
                            an_NetSpec_t netspec, an_ChanRecvFunc deliverfunc, void *deliverarg);
/** Destroys it: what waits is dropped. When it returns deliverfunc does not run, unless a thread of a domain called. */
int an_inchanDestroy(an_InChan_t chan);
/** Has a packet of the program come to an incoming channel of it, as if a port had brought it: deliverfunc gets it in a turn of that
 * channel's domain, with these ends, or none with 0. So a channel's packets go on into others, with what was done to them in between. A
 * channel with protspec "passed" has no others. On AN_OK the packet is gone. Otherwise the caller still has it: AN_EAGAIN: 1024 wait. */
int an_inchanPass(an_InChan_t chan, an_PacketBuffer_t packet, const struct an_Ends *ends);

/* * Creates an outgoing channel; an address that is left open ("*") is given with each packet. AN_EACCES: a source
 * that is not the node's. */
an_OutChan_t an_outchanCreate(void *mem, an_Domain_t domain, const char *protspec, const char *addrspec, an_NetSpec_t netspec);
/** Destroys it. */
int an_outchanDestroy(an_OutChan_t chan);
/** Sends a packet as the payload of the channel's last protocol; to: where, if the channel leaves it open, or 0. On AN_OK the packet is
 * gone. Otherwise the caller still has it: AN_EAGAIN: the ring to the node is full. What the node cannot send later it drops and
 * counts (an_domainUsage()); in the node's process it says so: AN_EMSGSIZE, AN_ENOENT: no route, AN_EINVAL: no destination. What a
 * deliver function sends goes when it returns, or before. */
int an_outchanSend(an_OutChan_t chan, const struct an_End *to, an_PacketBuffer_t packet);

/** Joins two channels of one domain: packets go from one to the other without the program; both stay objects. AN_EEXIST: from
 * is joined already. AN_EINVAL: from has protspec "passed": what programs pass on goes to functions of theirs. */
an_CutChan_t an_cutchanConcat(void *mem, an_InChan_t from, an_OutChan_t to);
/** Creates a cut-through channel from the specifications of its ends; they go with it. */
an_CutChan_t an_cutchanCreate(void *mem, an_Domain_t domain, an_DemuxKey_t demuxkey, const char *inprotspec,
                              const char *inaddrspec, const char *outprotspec, const char *outaddrspec, an_NetSpec_t netspec);
/** Destroys it: the packets of an incoming channel that was joined come to its function again. */
int an_cutchanDestroy(an_CutChan_t chan);

/* ---- TCP streams ---- */

/* The system's stack has the streams, the node hands their bytes over: a program needs no network for them, and reaches nobody but whom its
 * role's [role.streams] names; by default nobody. Whoever does not read slows down who writes. They end with their domain. Calls that wait
 * do so for so many milliseconds, or for ever (-1); while a function of a domain waits, so do the domain's packets. In the node's process
 * there are none (AN_ENOSYS). */

/** Opens a channel at an address of this host, for whoever connects: "10.0.1.2:8000", "[fd00::1]:80", "*:80" (all of IPv4). AN_EACCES: the
 * role does not let it. AN_EEXIST: somebody listens there. AN_ENOENT: no such address here. AN_ELIMIT: as many channels and streams as
 * the role grants, no bandwidth, or no memory: 64 KiB each. AN_ENOSPC: the node has no more. */
an_StreamChan_t an_streamListen(void *mem, an_Domain_t domain, const char *addrspec);
/** Closes it; its streams stay. */
int an_streamChanDestroy(an_StreamChan_t chan);
/** Waits for a stream, which goes with the channel's domain; its ends to *ends, which may be 0. AN_EAGAIN: none came in time.
 * AN_ESTALE: the channel has ended. */
an_Stream_t an_streamAccept(void *mem, an_StreamChan_t chan, int64_t milliseconds, struct an_Ends *ends);
/** Begins a stream to an address and port. It may be written to at once; what comes of it is told by an_streamRead(). AN_EACCES: the
 * role does not lead there. AN_EAGAIN: as many have begun in this second as the role grants. AN_ELIMIT, AN_ENOSPC: as
 * an_streamListen(). */
an_Stream_t an_streamConnect(void *mem, an_Domain_t domain, const char *addrspec);
/** Reads up to so many bytes, at least one; how many, into *done: 0 at the end. AN_EAGAIN: none came in time. AN_ENOENT: nobody
 * listens, or no route. AN_EIO: the stream has broken, or the node has ended it. */
int an_streamRead(an_Stream_t stream, void *into, size_t bytes, int64_t milliseconds, size_t *done);
/** Writes all of these bytes. AN_EAGAIN: there was no room in time; *done says how many went. AN_EIO and so on: as an_streamRead(). */
int an_streamWrite(an_Stream_t stream, const void *from, size_t bytes, int64_t milliseconds, size_t *done);
/** Nothing more is written: the other end reads the end, and may go on. */
int an_streamFinish(an_Stream_t stream);
/** Closes it: who waits for it is woken. What was written is sent. */
int an_streamClose(an_Stream_t stream);

/* ---- classifiers ---- */

/** Which of the rules that hold are wanted: the first in their order, all, those whose fields are worth most together. */
#define AN_MATCH_FIRST 0u
#define AN_MATCH_ALL 1u
#define AN_MATCH_BEST 2u

/** A classifier to be created. */
typedef struct an_ClassifierSpec {
    /** Definitions of protocols beside those that every classifier knows; 0: none. */
    const char *protocols;
    /** The protocol that every packet begins with; 0: "ethernet". For payloads one of protocols. */
    const char *root;
    /** AN_MATCH_… */
    unsigned int mode;
    /** Flows whose answer is kept, up to 2^20; 0: 4096. */
    unsigned int flows;
} const *an_ClassifierSpec_t;

/* A classifier of the program's own tells packets apart by protocols that it teaches and rules that it adds, in the languages of
 * docs/classifier.md. It is the node's, in the program's process: no call asks the node, and what is taught concerns nobody else.
 * Rules that bring packets to channels ("if0/ip/udp/rule") are the node's, over protocols that its operator teaches. Names of hosts
 * are not known. Why a text is refused an_classifierWhy() says, with the place, and names that are nearest. */

/** Creates a classifier that goes with a domain; 0 for spec means all zeroes. AN_EINVAL: a specification. */
an_Classifier_t an_classifierCreate(void *mem, an_Domain_t domain, an_ClassifierSpec_t spec);
/** Destroys it. */
int an_classifierDestroy(an_Classifier_t classifier);
/** Teaches all protocols of a text of up to 1 MiB, or none (AN_EINVAL). */
int an_classifierTeach(an_Classifier_t classifier, const char *protocols);
/** Forgets a protocol. AN_ENOENT: it is not taught. AN_EEXIST: rules or other protocols name it, or packets begin with it. */
int an_classifierUnteach(an_Classifier_t classifier, const char *protocol);
/** Adds a rule ("[ip | udp (dport = 53) | *]"), or a pcap filter ("udp port 53"), and puts its number into *number. Rules of a lower order
 * are first; of one order those with lower numbers. AN_ENOSPC: there are 2^20 cases of rules, or it looks at too much. */
int an_classifierAdd(an_Classifier_t classifier, const char *rule, unsigned int order, unsigned int *number);
/** Takes a rule out; its number may be another's then. AN_ENOENT: there is none of this number. */
int an_classifierRemove(an_Classifier_t classifier, unsigned int number);
/** Has look-ups of thousands of rules be fast: behind many changes, and of time that is the number of rules'. */
int an_classifierSettle(an_Classifier_t classifier);
/** The rules that hold for a packet of up to 65536 bytes: their numbers to rules, where there is room for so many, and how many there are
 * into *count. AN_EINVAL: more than room. */
int an_classifierMatch(an_Classifier_t classifier, const void *packet, size_t bytes, unsigned int *rules, size_t room, size_t *count);
/** Says in lines of text what a packet is, and why each rule holds or not; how many bytes, into *length. AN_EINVAL: more than room, and
 * the text is cut off. */
int an_classifierExplain(an_Classifier_t classifier, const void *packet, size_t bytes, char *text, size_t room, size_t *length);
/** Says why the last change of a classifier was refused, or with 0 why the thread's last one was not created, as
 * an_classifierExplain() does; nothing if it was not. */
int an_classifierWhy(an_Classifier_t classifier, char *text, size_t room, size_t *length);

/* ---- graphs ---- */

/** What is known of a graph. */
struct an_GraphFacts {
    /** Packets that came in, began in it, left by a port, were used up, were dropped, and are held: the first two are the others' sum. */
    uint64_t came, begun, left, used, dropped, held;
    /** The number of its generation, and how many engines that has. */
    unsigned int generation, engines;
    /** 1 if it runs in the kernel. */
    unsigned int kernel;
};

/** Changes of connections, made in one step: what goes, then what comes. */
typedef struct an_GraphEdit {
    /** Connections that go, as chains with ';' between them ("a -> b; c [1] -> d"); 0: none. */
    const char *disconnect;
    /** Engines that go with what is connected to them, with spaces between their names; 0: none. */
    const char *remove;
    /** Statements of the language that come ("a -> q :: Queue(100); q -> b;"); 0: none. */
    const char *connect;
    /** The generation that this is a change of; 0: any. */
    unsigned int base;
} const *an_GraphEdit_t;

/* A graph (docs/graphs.md) says what is done with ordinary packets by engines that are linked. The operator has made it and says what it
 * takes; programs of its role change all else while packets pass, as [role.graphs] grants: so often, with so many engines and
 * bytes of text, with these devices. The change is the node's, for all who look: a packet meets the engines of one generation, and
 * what cannot run leaves the graph as it was. AN_EACCES: the role changes none, the domain has another role than one above it, or a device
 * is not granted. AN_ENOENT: no graph of this name runs in the role. AN_EAGAIN: more changes in a second than granted, tries
 * included. AN_ELIMIT: more engines or text than granted, or over 64 KiB. AN_ECHANGED: somebody else has changed it since that
 * generation. AN_EINVAL: the text is wrong, or it cannot run; or a function calls that the node's own thread runs. */

/** Has a graph become that of a text; base: the generation that was looked at, 0: any. The new number to *generation, which may be 0. */
int an_graphApply(an_Domain_t domain, const char *graph, const char *text, unsigned int base, unsigned int *generation);
/** Connects its engines otherwise. */
int an_graphEdit(an_Domain_t domain, const char *graph, an_GraphEdit_t edit, unsigned int *generation);
/** What an engine says of itself ("c.count"): bytes to text, with NUL, and how many, into *length. AN_EINVAL: more than room. */
int an_graphRead(an_Domain_t domain, const char *graph, const char *handler, char *text, size_t room, size_t *length);
/** Writes to an engine ("s.switch"); this is a change too, but makes no generation. */
int an_graphWrite(an_Domain_t domain, const char *graph, const char *handler, const char *value);
/** What is known of it, into *facts, which may be 0, and its text as an_graphRead(); with 0 for text and room none. */
int an_graphShow(an_Domain_t domain, const char *graph, struct an_GraphFacts *facts, char *text, size_t room, size_t *length);
/** Says why this thread's last call about a graph was refused, with the place in the text, and what would be right; as an_graphRead(). */
int an_graphWhy(char *text, size_t room, size_t *length);

/* ---- files ---- */

/** How a file is opened: bits. To be read, written; made if it is not there, and (with that) refused if it is; emptied; every write
 * goes to the end. What changes a file needs AN_FILE_WRITE. */
#define AN_FILE_READ 1u
#define AN_FILE_WRITE 2u
#define AN_FILE_CREATE 4u
#define AN_FILE_EXCLUSIVE 8u
#define AN_FILE_TRUNCATE 16u
#define AN_FILE_APPEND 32u

/** What another holder may do in a name space: nothing, read and list, everything but to share it. */
#define AN_ACCESS_NONE 0
#define AN_ACCESS_READ 1
#define AN_ACCESS_WRITE 2

/** What is known of a file. */
struct an_FileStat {
    /** Bytes; 0 of a directory. */
    uint64_t size;
    /** When it was written last: nanoseconds after 1970 began. */
    uint64_t modified_ns;
    /** 1 if it is a directory. */
    int directory;
};

/** Opens a file of a name space: that of the holder of this name as far as it is shared, or the domain's own with 0. A path is names
 * with '/' between them. AN_ENOENT: no such file. AN_EEXIST: AN_FILE_EXCLUSIVE, and there is one. AN_EACCES: not shared so far.
 * AN_ELIMIT: no more files granted. AN_EINVAL: flags, or a path with an empty name, "." or "..". */
an_File_t an_fileOpen(void *mem, an_Domain_t domain, const char *space, const char *path, unsigned int flags);
/** Reads up to so many bytes at offset; how many, into *done: fewer only at the end. */
int an_fileRead(an_File_t file, uint64_t offset, void *into, size_t bytes, size_t *done);
/** Writes; how many, into *done. AN_ELIMIT: the quota is used up. */
int an_fileWrite(an_File_t file, uint64_t offset, const void *from, size_t bytes, size_t *done);
/** Closes it. */
int an_fileClose(an_File_t file);
/** Makes it longer, with zeros, or shorter. AN_EACCES: it was not opened to be written. AN_ELIMIT: the quota. */
int an_fileTruncate(an_File_t file, uint64_t size);
/** Waits until what was written is on the disk. */
int an_fileSync(an_File_t file);
/** What is known of an open file, into *stat. */
int an_fileStat(an_File_t file, struct an_FileStat *stat);
/** What there is by a path, into *stat. AN_ENOENT: nothing. */
int an_fileStatPath(an_Domain_t domain, const char *space, const char *path, struct an_FileStat *stat);
/** Takes a file's name away, or an empty directory; whoever has the file open keeps it. AN_EEXIST: the directory is not empty. */
int an_fileUnlink(an_Domain_t domain, const char *space, const char *path);
/** Makes a directory. AN_EEXIST: there is something of this name. AN_ELIMIT: no more files granted. */
int an_fileMakeDirectory(an_Domain_t domain, const char *space, const char *path);
/** Gives a file another name in its name space; a file that has it loses it in the same instant. */
int an_fileRename(an_Domain_t domain, const char *space, const char *from, const char *to);
/** The name in a directory (path; 0: the uppermost) that comes behind another in order (after; 0: the first), with NUL into the bytes at
 * name (256 hold every name), and what it is into *stat, which may be 0. AN_ENOENT: no name comes behind it. */
int an_fileNext(an_Domain_t domain, const char *space, const char *path, const char *after, char *name, size_t bytes,
                struct an_FileStat *stat);
/** Lets another holder (an [[ee]] by its name; "*": all) use the domain's name space: AN_ACCESS_… */
int an_fileShare(an_Domain_t domain, const char *with, int access);

#ifdef __cplusplus
}
#endif
#ifdef __wasm__
#pragma clang attribute pop
#endif
#endif
