#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
AN_CAPSULE(p, struct p)
{
    struct an_value value;
    an_zero(&value, sizeof(value));
    value.word[0] = 1;
    an_state_put(1, &value, 1000);
    return an_forward();
}
