# Makes the relative links of a Markdown file right for the place that ci/install copies it to. A link to a
# file that is installed beside it stays, a link to a public header leads to the installed header, and a
# link to anything else becomes text that names the path in the sources.
#
#   awk -v path=docs/user/moe.md -v installed=FILE -v headers=FOLDER -f ci/install-links.awk docs/user/moe.md
#
#   path        the file's path in the sources, and below share/doc/weir
#   installed   the name of a file that lists the paths in the sources of what is installed
#   headers     the folder of the installed headers, seen from the file's folder
#
# A link to a folder stays if the folder's README.md is installed. Code is copied as it is. Ends with 1 if
# a link has no beginning.

BEGIN {
    header_folder = "lib/include/weir"
    while ((getline name <installed) > 0) {
        alive[name] = 1
        if (sub(/\/README\.md$/, "", name))
            alive[name] = 1
        if (index(name, header_folder "/") == 1)
            alive[header_folder] = 1
    }
    folder = path
    if (!sub(/\/[^\/]*$/, "", folder))
        folder = ""
}

# Fenced blocks are copied. All else is read by paragraph, because a link's text may have a line break.
/^ *```/ {
    flush_paragraph()
    fenced = !fenced
    print
    next
}
fenced || /^[ \t]*$/ {
    flush_paragraph()
    print
    next
}
{ paragraph = paragraph $0 "\n" }
END { flush_paragraph(); exit failed }

function flush_paragraph() {
    printf "%s", relink(paragraph)
    paragraph = ""
}

# The path in the sources that a link of this file leads to.
function resolve(target,    parts, count, kept, i, result) {
    count = split((folder == "" ? "" : folder "/") target, parts, "/")
    kept = 0
    for (i = 1; i <= count; i++) {
        if (parts[i] == "..")
            kept -= kept > 0
        else if (parts[i] != "." && parts[i] != "")
            parts[++kept] = parts[i]
    }
    result = ""
    for (i = 1; i <= kept; i++)
        result = result (i > 1 ? "/" : "") parts[i]
    return result
}

# Whether a code span is open at the end of a text.
function in_code(text) { return gsub(/`/, "", text) % 2 }

# Where the link text begins that ends with a text: at the bracket that is not closed; 0 if there is none.
function opening(text,    i, depth, character) {
    for (i = length(text); i > 0; i--) {
        character = substr(text, i, 1)
        if (character == "]")
            depth++
        else if (character == "[" && depth-- == 0)
            return i
    }
    return 0
}

# The text before a link's target, with the link's text instead of the link.
function without_link(text, source,    at, words, plain) {
    at = opening(text)
    if (!at) {
        print path ": a link to " source " has no beginning" >"/dev/stderr"
        failed = 1
        return text
    }
    words = substr(text, at + 1)
    text = substr(text, 1, at - 1)
    if (sub(/!$/, "", text))
        return text words
    plain = words
    gsub(/`/, "", plain)
    return text words (plain == source ? "" : " (`" source "` in weir's sources)")
}

function relink(rest,    done, target, place, anchor, source) {
    done = ""
    while (match(rest, /\]\([^) \t\n]+\)/)) {
        target = substr(rest, RSTART + 2, RLENGTH - 3)
        done = done substr(rest, 1, RSTART - 1)
        rest = substr(rest, RSTART + RLENGTH)
        place = target
        anchor = sub(/#.*/, "", place) ? substr(target, index(target, "#")) : ""
        source = resolve(place)
        if (in_code(done) || target ~ /^([a-z]+:|#)/)
            done = done "](" target ")"
        else if (alive[source] && (source == header_folder || index(source, header_folder "/") == 1))
            done = done "](" headers substr(source, length(header_folder) + 1) anchor ")"
        else if (alive[source])
            done = done "](" target ")"
        else
            done = without_link(done, source)
    }
    return done rest
}
