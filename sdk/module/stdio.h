/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What modules have of C's library: texts. What is printed is said by an_say(), a line at a time, wherever it goes to, so the node's log
 * has it; a line that has not ended waits. Formats: %d %i %u %x %c %s %p %%, with l, ll, z, a width and 0 or - before it, and .number
 * of %s. There are no files; the node's are an_fileOpen()'s.
 */
#ifndef ANODE_MODULE_STDIO_H
#define ANODE_MODULE_STDIO_H

#include <anode/nodeos.h>
#include <stdarg.h>
#include <string.h>

typedef struct an_module_file FILE;
#define stdout ((FILE *)1)
#define stderr ((FILE *)2)

/* A text that is being made: where it goes, its room, and how long it would be. */
struct an_module_text {
    char *to;
    size_t room, length;
};

ANODE_MODULE_FUNCTION void an_module_put(struct an_module_text *text, char c)
{
    if (text->length < text->room)
        text->to[text->length] = c;
    text->length++;
}

ANODE_MODULE_FUNCTION int vsnprintf(char *to, size_t room, const char *format, va_list values)
{
    struct an_module_text text = {to, room ? room - 1 : 0, 0};
    for (; *format; format++) {
        if (*format != '%') {
            an_module_put(&text, *format);
            continue;
        }
        int left = 0, zero = 0, width = 0, most = -1, longs = 0;
        for (format++; *format == '-' || *format == '0'; format++)
            *format == '-' ? (left = 1) : (zero = 1);
        for (; *format >= '0' && *format <= '9'; format++)
            width = width * 10 + (*format - '0');
        if (*format == '.')
            for (most = 0, format++; (*format >= '0' && *format <= '9') || *format == '*'; format++)
                most = *format == '*' ? va_arg(values, int) : most * 10 + (*format - '0');
        for (; *format == 'l' || *format == 'z'; format++)
            longs += *format == 'l';
        char digits[24], *at = digits + sizeof digits;
        const char *part = at;
        int length = 0, negative = 0;
        unsigned base = *format == 'x' || *format == 'p' ? 16 : 10;
        switch (*format) {
        case 'c':
            *--at = va_arg(values, int);
            part = at, length = 1;
            break;
        case 's':
            part = va_arg(values, const char *);
            if (!part)
                part = "(null)";
            while (length != most && part[length])
                length++;
            break;
        case 'd': case 'i': case 'u': case 'x': case 'p': {
            unsigned long long number;
            if (*format == 'd' || *format == 'i') {
                long long given = longs > 1 ? va_arg(values, long long) : va_arg(values, int);
                negative = given < 0;
                number = negative ? -(unsigned long long)given : (unsigned long long)given;
            } else {
                number = longs > 1 ? va_arg(values, unsigned long long) : va_arg(values, unsigned);
            }
            do
                *--at = "0123456789abcdef"[number % base];
            while (number /= base);
            part = at, length = digits + sizeof digits - at;
            break;
        }
        case 0:
            format--;
            break;
        default:
            *--at = *format;
            part = at, length = 1;
        }
        int fill = width - length - negative;
        if (negative && zero)
            an_module_put(&text, '-');
        for (int n = 0; !left && n < fill; n++)
            an_module_put(&text, zero ? '0' : ' ');
        if (negative && !zero)
            an_module_put(&text, '-');
        for (int n = 0; n < length; n++)
            an_module_put(&text, part[n]);
        for (int n = 0; left && n < fill; n++)
            an_module_put(&text, ' ');
    }
    if (room)
        to[text.length < room ? text.length : room - 1] = 0;
    return text.length;
}

ANODE_MODULE_FUNCTION int snprintf(char *to, size_t room, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    int length = vsnprintf(to, room, format, values);
    va_end(values);
    return length;
}

/* The line that has not ended. */
ANODE_MODULE_FUNCTION char an_module_line[1024];
ANODE_MODULE_FUNCTION size_t an_module_line_length;

ANODE_MODULE_FUNCTION int fflush(FILE *file)
{
    (void)file;
    return 0;
}

ANODE_MODULE_FUNCTION int fputs(const char *text, FILE *file)
{
    (void)file;
    for (; *text; text++) {
        if (*text != '\n')
            an_module_line[an_module_line_length++] = *text;
        if (*text == '\n' || an_module_line_length == sizeof an_module_line - 1) {
            an_module_line[an_module_line_length] = 0;
            an_module_line_length = 0;
            an_say(an_module_line);
        }
    }
    return 0;
}

ANODE_MODULE_FUNCTION int puts(const char *text)
{
    return fputs(text, stdout) | fputs("\n", stdout);
}

ANODE_MODULE_FUNCTION int fprintf(FILE *file, const char *format, ...)
{
    char text[1024];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    fputs(text, file);
    return length;
}

ANODE_MODULE_FUNCTION int printf(const char *format, ...)
{
    char text[1024];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    fputs(text, stdout);
    return length;
}

#endif
