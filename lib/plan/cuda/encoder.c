/* The encoder's lists; see encoder.h. */
#include "plan/cuda/encoder.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

void *weiri_encoder_append(weiri_encoder *to, weiri_list *of, size_t element_bytes)
{
    if (to->status != WEIR_OK)
        return NULL;
    if (of->count == of->most) {
        uint32_t most = of->most ? 2 * of->most : 64;
        void *more = realloc(of->at, most * element_bytes);
        if (!more) {
            to->status = weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for its image", to->name);
            return NULL;
        }
        of->at = more;
        of->most = most;
    }
    return memset((char *)of->at + of->count++ * element_bytes, 0, element_bytes);
}

weiri_item *weiri_encoder_add_item(weiri_encoder *to, weiri_image_kind kind, const weiri_step *from)
{
    weiri_item *made = weiri_encoder_append(to, &to->items, sizeof *made);
    if (!made)
        return NULL;
    made->step.kind = (uint8_t)kind;
    made->step.op = from->op;
    return made;
}
