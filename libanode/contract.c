/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The structures and numbers of sdk/anode/nodeos.h as data. The build compiles this file, which is no program, with
 * debugging information, and compares the library's own structures with it, field by field (src/layout.rs).
 *
 * A new structure or number of the header needs one line here.
 */
#include <anode/nodeos.h>

#define SHARED(name) struct name shared_##name
#define NUMBER(name) number_##name = name

SHARED(an_ClassifierSpec);
SHARED(an_DemuxKey);
SHARED(an_DomainSpec);
SHARED(an_End);
SHARED(an_Ends);
SHARED(an_FileStat);
SHARED(an_FlowSpec);
SHARED(an_GraphEdit);
SHARED(an_GraphFacts);
SHARED(an_KeyTuple);
SHARED(an_MemPoolSpec);
SHARED(an_NetSpec);
SHARED(an_NodeSpec);
SHARED(an_StateValue);
SHARED(an_StoreFacts);
SHARED(an_StoreSpec);
SHARED(an_ThreadPoolSpec);
SHARED(an_Usage);

enum numbers {
    NUMBER(AN_EINVAL),
    NUMBER(AN_ESTALE),
    NUMBER(AN_EACCES),
    NUMBER(AN_ELIMIT),
    NUMBER(AN_EEXIST),
    NUMBER(AN_ENOENT),
    NUMBER(AN_ENOSPC),
    NUMBER(AN_EMSGSIZE),
    NUMBER(AN_EAGAIN),
    NUMBER(AN_ENOSYS),
    NUMBER(AN_ESHUTDOWN),
    NUMBER(AN_EIO),
    NUMBER(AN_ENOMEM),
    NUMBER(AN_ECHANGED),
    NUMBER(AN_FILE_READ),
    NUMBER(AN_FILE_WRITE),
    NUMBER(AN_FILE_CREATE),
    NUMBER(AN_FILE_EXCLUSIVE),
    NUMBER(AN_FILE_TRUNCATE),
    NUMBER(AN_FILE_APPEND),
    NUMBER(AN_ACCESS_NONE),
    NUMBER(AN_ACCESS_READ),
    NUMBER(AN_ACCESS_WRITE),
    NUMBER(AN_MATCH_FIRST),
    NUMBER(AN_MATCH_ALL),
    NUMBER(AN_MATCH_BEST),
    NUMBER(AN_STORE_EXCLUSIVE),
    NUMBER(AN_STORE_PERSISTENT),
};

enum numbers numbers;
