/* What a program is told when its role gives it a stream no more. Words: where it listens, and where it connects to. Prints a line when it
 * has both, and then why the stream has ended and the channel. */
#include <anode/nodeos.h>
#include <stdio.h>

static int failed(const char *what)
{
    printf("%s: %s\n", what, an_strerror(an_error()));
    return 1;
}

int main(int count, char **words)
{
    if (count != 3)
        return failed("two addresses");
    an_Node_t node = an_nodeConnect(0, &(struct an_NodeSpec){.title = "withdrawn", .cred = an_credCreate(0, "ee")});
    if (!node)
        return failed("connect");
    an_Domain_t own = an_domainSelf(node);
    an_StreamChan_t chan = an_streamListen(0, own, words[1]);
    an_Stream_t stream = an_streamConnect(0, own, words[2]);
    char byte;
    size_t bytes;
    if (!chan || !stream || an_streamRead(stream, &byte, 1, -1, &bytes) || bytes != 1)
        return failed("begin");
    puts("begun");
    fflush(stdout);
    printf("stream %d\n", an_streamRead(stream, &byte, 1, -1, &bytes) == AN_EACCES && bytes == 0);
    an_Stream_t none = an_streamAccept(0, chan, -1, 0);
    printf("channel %d\n", !none && an_error() == AN_ESTALE);
    none = an_streamConnect(0, own, words[2]);
    printf("again %d\n", !none && an_error() == AN_EACCES);
    return 0;
}
