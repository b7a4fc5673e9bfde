/* A classifier of a program's own: protocols are taught and forgotten, rules of both languages added and removed, packets matched in
 * three modes and explained, and mistakes shown with their places. Prints "ok" at the end. */
#include <anode/nodeos.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static an_Node_t node;
static an_Domain_t domain;

static void die(int line, const char *what)
{
    printf("line %d: %s: %s\n", line, what, an_strerror(an_error()));
    exit(1);
}

#define MUST(...) do { if (!(__VA_ARGS__)) die(__LINE__, #__VA_ARGS__); } while (0)

static const char APP[] = "(protocol app\n  (follows udp 2001)\n  (hdr_len 4)\n  (field kind offset 1 length 1)\n"
                          "  (field stream offset 2 length 2 cost 5 flow))\n";

/* Ethernet, IPv4 from 10.0.0.1 to 10.0.0.2, UDP to port 2001, kind 3, stream 7. */
static const unsigned char FRAME[] = {
    2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0x66, 0xcb, 10, 0, 0, 1, 10, 0, 0, 2,
    9, 7, 7, 0xd1, 0, 12, 0, 0, 0x11, 3, 0, 7,
};

static void says(an_Classifier_t classifier, const char *part)
{
    static char text[4096];
    size_t length;
    MUST(an_classifierWhy(classifier, text, sizeof text, &length) == AN_OK && length == strlen(text));
    if (!strstr(text, part)) {
        printf("%s\nlacks: %s\n", text, part);
        exit(1);
    }
}

/* Which rules hold, as text. */
static const char *holds(an_Classifier_t classifier, const void *packet, size_t bytes)
{
    static char text[64];
    unsigned int rules[8];
    size_t count;
    MUST(an_classifierMatch(classifier, packet, bytes, rules, 8, &count) == AN_OK);
    text[0] = 0;
    for (size_t at = 0; at < count; at++)
        sprintf(text + strlen(text), "%u ", rules[at]);
    return text;
}

static void frames(unsigned int mode, const char *with_app, const char *with_more, const char *without)
{
    struct an_ClassifierSpec spec = {.protocols = APP, .mode = mode};
    unsigned int number;
    an_Classifier_t classifier = an_classifierCreate(0, domain, &spec);
    MUST(classifier && !strcmp(holds(classifier, FRAME, sizeof FRAME), ""));
    MUST(an_classifierAdd(classifier, "[ip (src = 10.0.0.0/8) | udp | app (stream = 7) | *]", 2, &number) == AN_OK && number == 0);
    MUST(!strcmp(holds(classifier, FRAME, sizeof FRAME), with_app));
    MUST(an_classifierAdd(classifier, "udp and dst port 2001 and not src net 10.9.0.0/16", 1, &number) == AN_OK && number == 1);
    MUST(an_classifierAdd(classifier, "[ethernet (proto = ETHERTYPE_ARP) | *]", 1, &number) == AN_OK && number == 2);
    MUST(an_classifierSettle(classifier) == AN_OK);
    MUST(!strcmp(holds(classifier, FRAME, sizeof FRAME), with_more));
    MUST(an_classifierUnteach(classifier, "app") == AN_EEXIST);
    says(classifier, "1 rules name app");
    MUST(an_classifierRemove(classifier, 0) == AN_OK && an_classifierRemove(classifier, 0) == AN_ENOENT);
    MUST(an_classifierUnteach(classifier, "app") == AN_OK && an_classifierUnteach(classifier, "app") == AN_ENOENT);
    says(classifier, "app");
    MUST(!strcmp(holds(classifier, FRAME, sizeof FRAME), without));
    /* Taught again, the text has the same meaning. */
    MUST(an_classifierTeach(classifier, APP) == AN_OK && an_classifierTeach(classifier, APP) == AN_EINVAL);
    says(classifier, "app");
    MUST(an_classifierDestroy(classifier) == AN_OK && an_classifierDestroy(classifier) == AN_ESTALE);
}

static void explained(void)
{
    struct an_ClassifierSpec spec = {.protocols = APP};
    an_Classifier_t classifier = an_classifierCreate(0, domain, &spec);
    unsigned int number;
    static char text[4096], few[16];
    size_t length, told;
    MUST(an_classifierAdd(classifier, "[ip | udp | app (stream = 7) | *]", 0, &number) == AN_OK);
    MUST(an_classifierAdd(classifier, "[ip | udp | app (stream = 8) | *]", 0, &number) == AN_OK);
    MUST(an_classifierExplain(classifier, FRAME, sizeof FRAME, text, sizeof text, &length) == AN_OK);
    const char *parts[] = {"app, bytes 42 to 46: kind = 3, stream = 7", "rule 0 holds, worth 5",
                           "rule 1 does not hold, app stream is 7, not 0x8", "answer: 0\n"};
    for (int at = 0; at < 4; at++)
        if (!strstr(text, parts[at])) {
            printf("%s\nlacks: %s\n", text, parts[at]);
            exit(1);
        }
    MUST(an_classifierExplain(classifier, FRAME, sizeof FRAME, few, sizeof few, &told) == AN_EINVAL);
    MUST(told == length && strlen(few) == sizeof few - 1 && !strncmp(few, text, sizeof few - 1));
    /* What is cut off holds only what is there. */
    for (size_t bytes = 0; bytes < sizeof FRAME; bytes++)
        MUST(!strcmp(holds(classifier, FRAME, bytes), ""));
    MUST(an_classifierDestroy(classifier) == AN_OK);
}

/* Payloads of the program's own begin with a protocol that it alone knows. */
static void payloads(void)
{
    struct an_ClassifierSpec spec = {
        .protocols = "(protocol own (hdr_len 2) (field kind offset 0 length 1) (field user offset 1 length 1 flow))",
        .root = "own",
        .mode = AN_MATCH_BEST,
    };
    unsigned int number;
    an_Classifier_t classifier = an_classifierCreate(0, domain, &spec);
    MUST(classifier && an_classifierAdd(classifier, "[own (user = 5) | *]", 0, &number) == AN_OK);
    MUST(an_classifierAdd(classifier, "[own (kind = 1) (user = 4..6) | *]", 0, &number) == AN_OK);
    MUST(an_classifierAdd(classifier, "[own (kind = 2) (user = 4..6) | *]", 0, &number) == AN_OK);
    MUST(!strcmp(holds(classifier, "\1\5", 2), "1 ") && !strcmp(holds(classifier, "\0\5", 2), "0 "));
    MUST(!strcmp(holds(classifier, "\2\6rest", 6), "2 ") && !strcmp(holds(classifier, "\2", 1), ""));
    /* It ends with its domain. */
    an_Domain_t below = an_domainCreate(0, domain, 0, 0);
    an_Classifier_t other = an_classifierCreate(0, below, 0);
    MUST(below && other && an_domainDestroy(below) == AN_OK);
    MUST(an_classifierAdd(other, "[*]", 0, &number) == AN_ESTALE && an_classifierDestroy(classifier) == AN_OK);
}

static void mistakes(void)
{
    an_Classifier_t classifier = an_classifierCreate(0, domain, 0);
    unsigned int number, rules[1];
    size_t count;
    MUST(classifier && an_classifierAdd(classifier, "[ip (scr = 10.0.0.1) | *]", 0, &number) == AN_EINVAL);
    says(classifier, "rule:1:6: ip has no field 'scr'; do you mean 'src'?");
    MUST(an_classifierAdd(classifier, "[ipp | *]", 0, &number) == AN_EINVAL);
    says(classifier, "'ip'");
    MUST(an_classifierAdd(classifier, "vlan 5", 0, &number) == AN_EINVAL);
    says(classifier, "vlan");
    MUST(an_classifierAdd(classifier, "[ip (src = some.host.name) | *]", 0, &number) == AN_EINVAL);
    MUST(an_classifierTeach(classifier, "(protocol bad (hdr_len 2) (field over offset 1 length 2))") == AN_EINVAL);
    says(classifier, "protocols:1:");
    MUST(an_classifierAdd(classifier, 0, 0, &number) == AN_EINVAL && an_classifierAdd(classifier, "[*]", 0, 0) == AN_EINVAL);
    MUST(an_classifierAdd(classifier, "\377", 0, &number) == AN_EINVAL);
    MUST(an_classifierUnteach(classifier, "ethernet") == AN_EEXIST && an_classifierUnteach(classifier, 0) == AN_EINVAL);
    /* Nothing of all that is there. */
    MUST(!strcmp(holds(classifier, FRAME, sizeof FRAME), ""));
    MUST(an_classifierAdd(classifier, "[*]", 0, &number) == AN_OK && number == 0);
    says(classifier, "");
    MUST(an_classifierMatch(classifier, FRAME, sizeof FRAME, rules, 0, &count) == AN_EINVAL && count == 1);
    MUST(an_classifierMatch(classifier, FRAME, 65537, rules, 1, &count) == AN_EINVAL);
    MUST(an_classifierMatch(classifier, 0, 1, rules, 1, &count) == AN_EINVAL);
    MUST(an_classifierMatch(classifier, FRAME, sizeof FRAME, rules, 1, 0) == AN_EINVAL);
    MUST(an_classifierMatch((an_Classifier_t)domain, FRAME, sizeof FRAME, rules, 1, &count) == AN_EINVAL);
    MUST(!an_classifierCreate(0, domain, &(struct an_ClassifierSpec){.root = "ethernot"}) && an_error() == AN_EINVAL);
    says(0, "'ethernet'");
    MUST(!an_classifierCreate(0, domain, &(struct an_ClassifierSpec){.mode = 3}) && an_error() == AN_EINVAL);
    MUST(!an_classifierCreate(0, domain, &(struct an_ClassifierSpec){.flows = (1 << 20) + 1}) && an_error() == AN_EINVAL);
    MUST(!an_classifierCreate(0, 0, 0) && an_error() == AN_EINVAL);
    MUST(an_classifierDestroy(classifier) == AN_OK);
}

int main(void)
{
    struct an_NodeSpec spec = {.cred = an_credCreate(0, "ee")};
    MUST(node = an_nodeConnect(0, &spec));
    domain = an_domainSelf(node);
    frames(AN_MATCH_FIRST, "0 ", "1 ", "1 ");
    frames(AN_MATCH_ALL, "0 ", "1 0 ", "1 ");
    frames(AN_MATCH_BEST, "0 ", "0 ", "1 ");
    explained();
    payloads();
    mistakes();
    MUST(an_nodeDisconnect(node) == AN_OK);
    puts("ok");
    return 0;
}
