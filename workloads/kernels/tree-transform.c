/*
 * tree-transform RECORDS ROUNDS: documents parsed into trees, transformed by rules, written out.
 *
 * Computes: a document of RECORDS orders with customers, lines and notes, as marked-up text. Every
 * round parses it into a tree of elements, attributes and text, applies a style sheet of rules to
 * the tree (each has a pattern of ancestors' names and an action: rename, wrap, unwrap, sort the
 * children, look up by key, add up, change case), and writes the resulting tree as text, which is
 * the next round's document.
 *
 * Algorithm: recursive-descent parsing with interned names; template matching as XSL
 * Transformations 1.0 (W3C, 1999) defines it: for each node the first rule whose pattern matches,
 * then its children; merge sort of linked children; a hash index for keys.
 *
 * Memory behaviour that it stands for (xalancbmk): many small nodes, from malloc and given back
 * node by node, linked in trees and walked in order; string comparison and copying byte by byte;
 * deep calls; the heap is written again and again at new places.
 *
 * Check: the text written, parsed again, gives an equal tree; the sums, the order and the number of
 * elements in the result are those that the generator of the document foretells.
 */
#define KERNEL "tree-transform"
#include "kernel.h"

enum { NAMES_MAX = 256, NAME_BYTES_MAX = 31, PATTERN_MAX = 4, TEXT_BYTES_MAX = 4096 };

/* An interned name is a small number. */
struct names {
    char text[NAMES_MAX][NAME_BYTES_MAX + 1];
    uint16_t by_hash[2 * NAMES_MAX]; /* 0: free; else the name's number + 1 */
    uint16_t count;
};

struct attribute {
    struct attribute *next;
    char *value;
    uint16_t name;
};

/* An element, or, with `text`, a run of text. */
struct node {
    struct node *parent;
    struct node *first_child, *last_child;
    struct node *next;
    struct attribute *attributes;
    char *text;
    uint16_t name;
};

/* Text that grows. */
struct buffer {
    char *bytes;
    size_t count, capacity;
};

static void *checked(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, KERNEL ": no memory\n");
        exit(2);
    }
    return memory;
}

static char *copy_text(const char *bytes, size_t count)
{
    char *text = checked(malloc(count + 1));
    memcpy(text, bytes, count);
    text[count] = '\0';
    return text;
}

/* ---- Names -------------------------------------------------------------------------------- */

static uint16_t intern(struct names *names, const char *bytes, size_t count)
{
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++) {
        hash = hash * 31 + (uint8_t)bytes[i];
    }
    for (size_t at = hash % (2 * NAMES_MAX);; at = (at + 1) % (2 * NAMES_MAX)) {
        const uint16_t known = names->by_hash[at];
        if (known == 0) {
            if (names->count == NAMES_MAX || count > NAME_BYTES_MAX) {
                wrong("the document has too many names, or too long ones");
            }
            memcpy(names->text[names->count], bytes, count);
            names->text[names->count][count] = '\0';
            names->by_hash[at] = ++names->count;
            return names->count - 1;
        }
        if (strncmp(names->text[known - 1], bytes, count) == 0 &&
            names->text[known - 1][count] == '\0') {
            return known - 1;
        }
    }
}

static uint16_t name(struct names *names, const char *text)
{
    return intern(names, text, strlen(text));
}

/* ---- Trees -------------------------------------------------------------------------------- */

static struct node *new_node(struct node *parent, uint16_t name_number)
{
    struct node *node = checked(malloc(sizeof *node));
    *node = (struct node){.parent = parent, .name = name_number};
    if (parent != NULL) {
        if (parent->last_child != NULL) {
            parent->last_child->next = node;
        } else {
            parent->first_child = node;
        }
        parent->last_child = node;
    }
    return node;
}

static void new_text(struct node *parent, const char *bytes, size_t count)
{
    new_node(parent, 0)->text = copy_text(bytes, count);
}

static void new_attribute(struct node *node, uint16_t name_number, const char *bytes, size_t count)
{
    struct attribute **end = &node->attributes;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = checked(malloc(sizeof **end));
    **end = (struct attribute){.value = copy_text(bytes, count), .name = name_number};
}

static const char *attribute_of(const struct node *node, uint16_t name_number)
{
    for (const struct attribute *a = node->attributes; a != NULL; a = a->next) {
        if (a->name == name_number) {
            return a->value;
        }
    }
    return "";
}

static const char *text_of(const struct node *node)
{
    return node->first_child != NULL && node->first_child->text != NULL ? node->first_child->text
                                                                        : "";
}

static const struct node *child_named(const struct node *node, uint16_t name_number)
{
    for (const struct node *child = node->first_child; child != NULL; child = child->next) {
        if (child->text == NULL && child->name == name_number) {
            return child;
        }
    }
    return NULL;
}

static void free_tree(struct node *node)
{
    while (node->first_child != NULL) {
        struct node *child = node->first_child;
        node->first_child = child->next;
        free_tree(child);
    }
    while (node->attributes != NULL) {
        struct attribute *a = node->attributes;
        node->attributes = a->next;
        free(a->value);
        free(a);
    }
    free(node->text);
    free(node);
}

static bool equal_trees(const struct node *a, const struct node *b)
{
    if ((a->text == NULL) != (b->text == NULL)) {
        return false;
    }
    if (a->text != NULL) {
        return strcmp(a->text, b->text) == 0;
    }
    const struct attribute *x = a->attributes;
    const struct attribute *y = b->attributes;
    for (; x != NULL && y != NULL; x = x->next, y = y->next) {
        if (x->name != y->name || strcmp(x->value, y->value) != 0) {
            return false;
        }
    }
    const struct node *p = a->first_child;
    const struct node *q = b->first_child;
    for (; p != NULL && q != NULL; p = p->next, q = q->next) {
        if (!equal_trees(p, q)) {
            return false;
        }
    }
    return a->name == b->name && x == NULL && y == NULL && p == NULL && q == NULL;
}

/* ---- Writing ------------------------------------------------------------------------------ */

static void append(struct buffer *b, const char *bytes, size_t count)
{
    if (b->count + count > b->capacity) {
        b->capacity = 2 * (b->count + count) + 64;
        b->bytes = checked(realloc(b->bytes, b->capacity));
    }
    memcpy(b->bytes + b->count, bytes, count);
    b->count += count;
}

static void append_string(struct buffer *b, const char *text)
{
    append(b, text, strlen(text));
}

/* Text with what would be markup in it written as entities. */
static void append_escaped(struct buffer *b, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<': append_string(b, "&lt;"); break;
        case '>': append_string(b, "&gt;"); break;
        case '&': append_string(b, "&amp;"); break;
        case '"': append_string(b, "&quot;"); break;
        default: append(b, text, 1); break;
        }
    }
}

static void append_tree(struct buffer *b, const struct names *names, const struct node *node)
{
    if (node->text != NULL) {
        append_escaped(b, node->text);
        return;
    }
    append_string(b, "<");
    append_string(b, names->text[node->name]);
    for (const struct attribute *a = node->attributes; a != NULL; a = a->next) {
        append_string(b, " ");
        append_string(b, names->text[a->name]);
        append_string(b, "=\"");
        append_escaped(b, a->value);
        append_string(b, "\"");
    }
    if (node->first_child == NULL) {
        append_string(b, "/>");
        return;
    }
    append_string(b, ">");
    for (const struct node *child = node->first_child; child != NULL; child = child->next) {
        append_tree(b, names, child);
    }
    append_string(b, "</");
    append_string(b, names->text[node->name]);
    append_string(b, ">");
}

/* ---- Parsing ------------------------------------------------------------------------------ */

struct parser {
    struct names *names;
    const char *at, *end;
};

static void expect(struct parser *p, const char *text)
{
    const size_t count = strlen(text);
    if ((size_t)(p->end - p->at) < count || memcmp(p->at, text, count) != 0) {
        wrong("the document lacks \"%s\" %td bytes before its end", text, p->end - p->at);
    }
    p->at += count;
}

static bool is_name_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '-';
}

static uint16_t parse_name(struct parser *p)
{
    const char *start = p->at;
    while (p->at < p->end && is_name_byte(*p->at)) {
        p->at++;
    }
    return intern(p->names, start, (size_t)(p->at - start));
}

/* Text up to the byte that ends it, its entities resolved; returns its length. */
static size_t parse_text(struct parser *p, char stop, char text[TEXT_BYTES_MAX])
{
    static const struct {
        const char *entity;
        char byte;
    } entities[] = {{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}};
    size_t count = 0;
    while (p->at < p->end && *p->at != stop && count < TEXT_BYTES_MAX) {
        if (*p->at != '&') {
            text[count++] = *p->at++;
            continue;
        }
        size_t i = 0;
        while (i < 3 && strncmp(p->at, entities[i].entity, strlen(entities[i].entity)) != 0) {
            i++;
        }
        expect(p, entities[i].entity);
        text[count++] = entities[i].byte;
    }
    return count;
}

static struct node *parse_element(struct parser *p, struct node *parent)
{
    char text[TEXT_BYTES_MAX];
    expect(p, "<");
    struct node *node = new_node(parent, parse_name(p));
    while (p->at < p->end && *p->at == ' ') {
        p->at++;
        const uint16_t attribute = parse_name(p);
        expect(p, "=\"");
        const size_t count = parse_text(p, '"', text);
        expect(p, "\"");
        new_attribute(node, attribute, text, count);
    }
    if (p->at < p->end && *p->at == '/') {
        expect(p, "/>");
        return node;
    }
    expect(p, ">");
    while (p->at + 1 < p->end && !(p->at[0] == '<' && p->at[1] == '/')) {
        if (*p->at == '<') {
            parse_element(p, node);
        } else {
            new_text(node, text, parse_text(p, '<', text));
        }
    }
    expect(p, "</");
    if (parse_name(p) != node->name) {
        wrong("an element does not end with its name, %s", p->names->text[node->name]);
    }
    expect(p, ">");
    return node;
}

static struct node *parse(struct names *names, const struct buffer *document)
{
    struct parser p = {names, document->bytes, document->bytes + document->count};
    struct node *root = parse_element(&p, NULL);
    if (p.at != p.end) {
        wrong("something follows the document");
    }
    return root;
}

/* ---- Rules -------------------------------------------------------------------------------- */

enum action {
    COPY,    /* the element, with its transformed children */
    RENAME,  /* the same under the rule's other name */
    UNWRAP,  /* its children alone */
    WRAP,    /* the element inside one of the other name */
    SORT,    /* the children by the text of the other name's attribute */
    LOOK_UP, /* the value of attribute `key` replaced by the text that the index has for it */
    SUM,     /* the other name's attribute set to the sum of price times count below it */
    MARK,    /* small letters in its text made large, and large ones small */
};

/* Names from the element outwards; 0 matches any. Earlier rules win. */
struct rule {
    uint16_t pattern[PATTERN_MAX];
    int pattern_count;
    enum action action;
    uint16_t other;
};

enum { RULES_MAX = 16 };

/* From a customer's identity to its name. */
struct index {
    size_t slots;
    const struct node **customers;
};

struct sheet {
    struct names *names;
    struct rule rules[RULES_MAX];
    int rules_count;
    uint16_t id, key, price, count, customers;
    struct index index;
    uint64_t applied;
};

static void add_rule(struct sheet *s, const char *pattern, enum action action, const char *other)
{
    struct rule *rule = &s->rules[s->rules_count++];
    *rule = (struct rule){.action = action, .other = name(s->names, other)};
    /* the pattern is written from the outside in, so its last name comes first */
    const char *end = pattern + strlen(pattern);
    while (end > pattern) {
        const char *start = end;
        while (start > pattern && start[-1] != '/') {
            start--;
        }
        const size_t count = (size_t)(end - start);
        rule->pattern[rule->pattern_count++] =
            count == 1 && *start == '*' ? 0 : intern(s->names, start, count);
        end = start > pattern ? start - 1 : pattern;
    }
}

static bool matches(const struct rule *rule, const struct node *node)
{
    for (int i = 0; i < rule->pattern_count; i++) {
        if (node == NULL || (rule->pattern[i] != 0 && node->name != rule->pattern[i])) {
            return false;
        }
        node = node->parent;
    }
    return true;
}

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 0;
    for (; *text != '\0'; text++) {
        hash = hash * 31 + (uint8_t)*text;
    }
    return mix64(hash);
}

static void build_index(struct sheet *s, const struct node *root)
{
    const struct node *customers = child_named(root, s->customers);
    if (customers == NULL) {
        wrong("the document has no customers");
    }
    size_t count = 0;
    for (const struct node *c = customers->first_child; c != NULL; c = c->next) {
        count++;
    }
    s->index.slots = 2 * count + 1;
    s->index.customers = allocate_zeroed(s->index.slots, sizeof *s->index.customers);
    for (const struct node *c = customers->first_child; c != NULL; c = c->next) {
        size_t at = hash_text(attribute_of(c, s->id)) % s->index.slots;
        while (s->index.customers[at] != NULL) {
            at = at + 1 < s->index.slots ? at + 1 : 0;
        }
        s->index.customers[at] = c;
    }
}

static const struct node *look_up(const struct sheet *s, const char *id)
{
    size_t at = hash_text(id) % s->index.slots;
    while (s->index.customers[at] != NULL &&
           strcmp(attribute_of(s->index.customers[at], s->id), id) != 0) {
        at = at + 1 < s->index.slots ? at + 1 : 0;
    }
    return s->index.customers[at];
}

/* Merges two sorted lists by the attribute; of equal ones those of the first come first. */
static struct node *merge(struct node *a, struct node *b, uint16_t by)
{
    struct node *first = NULL;
    struct node **end = &first;
    while (a != NULL && b != NULL) {
        struct node **taken = strcmp(attribute_of(a, by), attribute_of(b, by)) <= 0 ? &a : &b;
        *end = *taken;
        end = &(*taken)->next;
        *taken = *end;
    }
    *end = a != NULL ? a : b;
    return first;
}

static struct node *sort_list(struct node *list, size_t count, uint16_t by)
{
    if (count < 2) {
        return list;
    }
    struct node *middle = list;
    for (size_t i = 1; i < count / 2; i++) {
        middle = middle->next;
    }
    struct node *second = middle->next;
    middle->next = NULL;
    return merge(sort_list(list, count / 2, by), sort_list(second, count - count / 2, by), by);
}

static void sort_children(struct node *node, uint16_t by)
{
    size_t count = 0;
    for (const struct node *child = node->first_child; child != NULL; child = child->next) {
        count++;
    }
    node->first_child = sort_list(node->first_child, count, by);
    for (struct node *child = node->first_child; child != NULL; child = child->next) {
        node->last_child = child;
    }
}

/* The sum of price times count of everything below the node. */
static uint64_t sum_below(const struct sheet *s, const struct node *node)
{
    uint64_t sum = 0;
    for (const struct node *child = node->first_child; child != NULL; child = child->next) {
        if (child->text == NULL) {
            sum += strtoull(attribute_of(child, s->price), NULL, 10) *
                       strtoull(attribute_of(child, s->count), NULL, 10) +
                   sum_below(s, child);
        }
    }
    return sum;
}

static void copy_attributes(const struct sheet *s, const struct node *from, struct node *to,
                            const struct rule *rule)
{
    for (const struct attribute *a = from->attributes; a != NULL; a = a->next) {
        const char *value = a->value;
        if (rule->action == LOOK_UP && a->name == s->key) {
            const struct node *customer = look_up(s, value);
            value = customer != NULL ? text_of(customer) : value;
        }
        if (rule->action != SUM || a->name != rule->other) {
            new_attribute(to, a->name, value, strlen(value));
        }
    }
    if (rule->action == SUM) {
        char number[24];
        const int count = snprintf(number, sizeof number, "%" PRIu64, sum_below(s, from));
        new_attribute(to, rule->other, number, (size_t)count);
    }
}

/* Turns letters over: small ones large and large ones small. */
static void mark_text(struct node *node)
{
    for (struct node *child = node->first_child; child != NULL; child = child->next) {
        for (char *at = child->text; at != NULL && *at != '\0'; at++) {
            if ((*at | 32) >= 'a' && (*at | 32) <= 'z') {
                *at ^= 32;
            }
        }
    }
}

static void transform(struct sheet *s, const struct node *node, struct node *parent);

static void transform_children(struct sheet *s, const struct node *node, struct node *parent)
{
    for (const struct node *child = node->first_child; child != NULL; child = child->next) {
        transform(s, child, parent);
    }
}

/* Appends the transformed node to the parent in the new tree. */
static void transform(struct sheet *s, const struct node *node, struct node *parent)
{
    if (node->text != NULL) {
        new_text(parent, node->text, strlen(node->text));
        return;
    }
    static const struct rule otherwise = {.action = COPY};
    const struct rule *rule = &otherwise;
    for (int i = 0; i < s->rules_count; i++) {
        if (matches(&s->rules[i], node)) {
            rule = &s->rules[i];
            break;
        }
    }
    s->applied++;
    if (rule->action == UNWRAP) {
        transform_children(s, node, parent);
        return;
    }
    struct node *outer = rule->action == WRAP ? new_node(parent, rule->other) : parent;
    struct node *copy = new_node(outer, rule->action == RENAME ? rule->other : node->name);
    copy_attributes(s, node, copy, rule);
    transform_children(s, node, copy);
    if (rule->action == SORT) {
        sort_children(copy, rule->other);
    }
    if (rule->action == MARK) {
        mark_text(copy);
    }
}

/* Applies all rules; returns the new tree. */
static struct node *apply_sheet(struct sheet *s, const struct node *root)
{
    build_index(s, root);
    struct node *holder = new_node(NULL, 0);
    transform(s, root, holder);
    struct node *result = holder->first_child;
    result->parent = NULL;
    free(holder);
    free(s->index.customers);
    return result;
}

/* ---- The document ------------------------------------------------------------------------- */

enum { LINES_AN_ORDER = 4, ORDERS_A_CUSTOMER = 8, WORDS = 32 };

static const char *const WORD[WORDS] = {
    "amber", "basin", "cedar", "delta",  "ember",  "fjord", "grove",   "haven",
    "inlet", "jetty", "knoll", "lagoon", "meadow", "north", "orchard", "prairie",
    "quay",  "ridge", "slope", "tundra", "upland", "vale",  "wharf",   "yonder",
    "ash",   "birch", "crag",  "dune",   "elm",    "fen",   "glade",   "R&D <unit>"};

/* What the document holds, for the check. */
struct contents {
    uint64_t orders, lines, value;
    uint64_t brackets; /* in texts, which must be written as entities */
};

/* Returns how many opening brackets there are in the words. */
static uint64_t append_words(struct buffer *b, uint64_t *random, uint64_t count)
{
    uint64_t brackets = 0;
    for (uint64_t i = 0; i < count; i++) {
        const char *word = WORD[random_below(random, WORDS)];
        append_string(b, i > 0 ? " " : "");
        append_escaped(b, word);
        brackets += strchr(word, '<') != NULL;
    }
    return brackets;
}

static void append_line(struct buffer *b, const char *format, uint64_t one, uint64_t two)
{
    char text[128];
    const int count = snprintf(text, sizeof text, format, one, two);
    append(b, text, (size_t)count);
}

static struct contents make_document(struct buffer *b, uint64_t orders)
{
    struct contents contents = {.orders = orders};
    uint64_t random = random_seeded(1);
    const uint64_t customers = orders / ORDERS_A_CUSTOMER + 1;
    append_string(b, "<shop><customers>");
    for (uint64_t i = 0; i < customers; i++) {
        append_line(b, "<customer id=\"c%" PRIu64 "\">%04" PRIu64 " ", i, mix64(i) % 10000);
        contents.brackets += append_words(b, &random, 2);
        append_string(b, "</customer>");
    }
    append_string(b, "</customers><orders>");
    for (uint64_t i = 0; i < orders; i++) {
        append_line(b, "<order number=\"%08" PRIu64 "\"><buyer key=\"c%" PRIu64 "\"/><note>",
                    mix64(i) % 100000000, random_below(&random, customers));
        contents.brackets += append_words(b, &random, 4 + random_below(&random, 12));
        append_string(b, "</note>");
        for (int line = 0; line < LINES_AN_ORDER; line++) {
            const uint64_t price = 1 + random_below(&random, 10000);
            const uint64_t count = 1 + random_below(&random, 9);
            append_line(b, "<line price=\"%" PRIu64 "\" count=\"%" PRIu64 "\"><item>", price,
                        count);
            contents.brackets += append_words(b, &random, 2);
            append_string(b, "</item></line>");
            contents.value += price * count;
            contents.lines++;
        }
        append_string(b, "</order>");
    }
    append_string(b, "</orders></shop>");
    return contents;
}

static struct sheet make_sheet(struct names *names)
{
    struct sheet s = {.names = names};
    s.id = name(names, "id");
    s.key = name(names, "key");
    s.price = name(names, "price");
    s.count = name(names, "count");
    s.customers = name(names, "customers");
    add_rule(&s, "shop/orders", SORT, "number");
    add_rule(&s, "orders/order", SUM, "sum");
    add_rule(&s, "order/buyer", LOOK_UP, "buyer");
    add_rule(&s, "order/line", WRAP, "parcel");
    add_rule(&s, "order/parcel", UNWRAP, "parcel");
    add_rule(&s, "order/*/line/item", MARK, "item");
    add_rule(&s, "order/note", RENAME, "remark");
    add_rule(&s, "order/remark", RENAME, "note");
    return s;
}

/* ---- The check ---------------------------------------------------------------------------- */

/* Elements of the name below the node. */
static uint64_t count_below(const struct node *node, uint16_t name_number)
{
    uint64_t count = 0;
    for (const struct node *child = node->first_child; child != NULL; child = child->next) {
        if (child->text == NULL) {
            count += (child->name == name_number) + count_below(child, name_number);
        }
    }
    return count;
}

/* Opening brackets in the texts below the node. */
static uint64_t brackets_below(const struct node *node)
{
    uint64_t count = 0;
    for (const struct node *child = node->first_child; child != NULL; child = child->next) {
        for (const char *at = child->text; at != NULL && *at != '\0'; at++) {
            count += *at == '<';
        }
        count += brackets_below(child);
    }
    return count;
}

static void check_result(const struct sheet *s, const struct node *root, struct contents contents)
{
    const uint16_t number = name(s->names, "number");
    const uint16_t sum = name(s->names, "sum");
    const struct node *orders = child_named(root, name(s->names, "orders"));
    struct contents found = {.brackets = brackets_below(root)};
    const char *last = "";
    for (const struct node *order = orders != NULL ? orders->first_child : NULL; order != NULL;
         order = order->next) {
        if (strcmp(last, attribute_of(order, number)) > 0) {
            wrong("order %s comes after order %s", attribute_of(order, number), last);
        }
        last = attribute_of(order, number);
        found.orders++;
        found.value += strtoull(attribute_of(order, sum), NULL, 10);
        found.lines += count_below(order, name(s->names, "line"));
    }
    if (found.orders != contents.orders || found.lines != contents.lines ||
        found.value != contents.value || found.brackets != contents.brackets) {
        wrong("the result has %" PRIu64 " orders, %" PRIu64 " lines, %" PRIu64
              " of value, but must have %" PRIu64 ", %" PRIu64 ", %" PRIu64,
              found.orders, found.lines, found.value, contents.orders, contents.lines,
              contents.value);
    }
}

/* ---- Rounds ------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    const uint64_t orders = argument(argc, argv, 1, "records", 1, 10000000);
    const uint64_t rounds = argument(argc, argv, 2, "rounds", 1, 100000);
    arguments_end(argc, 2);

    struct names *names = allocate_zeroed(1, sizeof *names);
    name(names, "any"); /* number 0 */
    struct sheet sheet = make_sheet(names);
    struct buffer document = {.bytes = NULL};
    const struct contents contents = make_document(&document, orders);
    steady("%" PRIu64 " orders, %zu bytes, %" PRIu64 " rounds", orders, document.count, rounds);

    uint64_t digest = 0;
    for (uint64_t round = 0; round < rounds; round++) {
        struct node *tree = parse(names, &document);
        struct node *result = apply_sheet(&sheet, tree);
        free_tree(tree);
        document.count = 0;
        append_tree(&document, names, result);
        if (round + 1 == rounds) {
            struct node *again = parse(names, &document);
            if (!equal_trees(result, again)) {
                wrong("the result, written and parsed again, is another tree");
            }
            free_tree(again);
            check_result(&sheet, result, contents);
        }
        free_tree(result);
    }

    for (size_t i = 0; i < document.count; i += 16) {
        digest = digest * 31 + (uint8_t)document.bytes[i];
    }
    digest_word(&digest, document.count);
    digest_word(&digest, sheet.applied);
    return verified(digest, "%zu bytes, %" PRIu64 " rules applied", document.count, sheet.applied);
}
