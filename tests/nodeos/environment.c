/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * An environment run by a node: prints its user, files and limits, and counts its lives in a file.
 */
#include <anode/nodeos.h>
#include <stdio.h>
#include <string.h>

static an_Node_t connect_as(const char *role, const char *title)
{
    struct an_NodeSpec spec = {.title = title, .cred = role ? an_credCreate(0, role) : 0};
    return an_nodeConnect(0, &spec);
}

static int count_life(an_Domain_t domain)
{
    char text[16] = "0";
    size_t done = 0;
    int life = 0;
    an_File_t file = an_fileOpen(0, domain, 0, "lives", AN_FILE_READ | AN_FILE_WRITE | AN_FILE_CREATE);
    if (!file || an_fileRead(file, 0, text, sizeof text - 1, &done))
        return -an_error();
    sscanf(text, "%d", &life);
    int length = snprintf(text, sizeof text, "%d", ++life);
    if (an_fileWrite(file, 0, text, length, &done) || done != (size_t)length || an_fileClose(file))
        return -an_error();
    return life;
}

static int refusal_of_file(an_Domain_t domain, const char *path, unsigned int flags)
{
    return an_fileOpen(0, domain, 0, path, flags) ? AN_OK : an_error();
}

int main(void)
{
    int more = connect_as("rich", "more") ? AN_OK : an_error();
    an_Node_t node = connect_as(0, "whatever it says");
    if (!node) {
        fprintf(stderr, "not connected: %s\n", an_strerror(an_error()));
        return 1;
    }
    an_Domain_t domain = an_domainSelf(node), below = an_domainCreate(0, domain, 0, 0);
    int escape = refusal_of_file(domain, "../other/lives", AN_FILE_READ), absent = refusal_of_file(below, "nothing", AN_FILE_READ);
    int shared = refusal_of_file(below, "lives", AN_FILE_READ);
    an_Node_t second = connect_as(0, "second");
    char full[1100];
    memset(full, 'x', sizeof full);
    size_t done = 0;
    an_File_t large = an_fileOpen(0, domain, 0, "large", AN_FILE_WRITE | AN_FILE_CREATE);
    int quota = large ? an_fileWrite(large, 0, full, sizeof full, &done) : an_error();
    int life = count_life(domain);
    fprintf(stderr, "life %d: more %d, escape %d, absent %d, shared %d, second %d, quota %d.\n", life, more, escape, absent,
            life > 1 ? shared : 0, second != 0, quota);
    return an_domainWait(domain);
}
