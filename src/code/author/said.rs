//! What the compiler said, for authors of capsules: each message once, at the author's line, with a remedy.
//!
//! ```text
//! ./float.c:5:29: error: A call to built-in function '__muldf3' is not supported.
//! float.c:5: the kernel half has no floating point numbers (clang: A call to …)
//!   remedy: count in whole numbers, of thousandths for one; or build with --only wasm
//! ```
//!
//! clang explains what C is wrong; its back ends speak of what kernels and maps can do elsewhere. So their words are
//! translated by a table, and one that is not in it stands as it is.

use super::names::Names;
use core::fmt::Write as _;
use std::ffi::OsStr;
use std::path::Path;

/// What to do about too much stack.
const STACK: &str =
    "keep less in variables: change w->payload in place, or use an_load() and an_store(); or build with --only wasm";

/// The header of capsules, in which no author has lines.
const HEADER: &str = "capsule.h";

/// One message of the compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// File and line; nothing: the compiler says none.
    pub(super) place: Option<(String, u32)>,
    /// Whether it refuses the source.
    pub(super) refuses: bool,
    /// What it says.
    pub(super) text: String,
    /// The line of the source and the mark below it.
    shown: Vec<String>,
}

/// What a message means: words in it, the cause if those of the compiler do not say it, and the remedy.
struct Meaning(&'static [&'static str], &'static str, &'static str);

const FLOATS: &str = "the kernel half has no floating point numbers";
const WHOLE: &str = "count in whole numbers, of thousandths for one; or build with --only wasm";

const MEANINGS: [Meaning; 22] = [
    Meaning(&["be16' (aka"], "", "an_be16() makes a number of a be16 and a be16 of a number; compare with .network"),
    Meaning(&["be32' (aka"], "", "an_be32() makes a number of a be32 and a be32 of a number; compare with .network"),
    Meaning(&["be64' (aka"], "", "an_be64() makes a number of a be64 and a be64 of a number; compare with .network"),
    Meaning(&["-Wreturn-type"], "", "end each way with a verdict: return an_forward(), an_deliver() or an_drop()"),
    Meaning(
        &["implicit declaration", "call to undeclared function"],
        "",
        "only the calls of anode/capsule.h exist, and the functions that the program defines before they are called",
    ),
    Meaning(&["undeclared identifier"], "", "declare it before this line, or spell it as anode/capsule.h does"),
    Meaning(
        &["shows at most 512 bytes"],
        "",
        "make the payload type smaller; what is behind it an_load() and an_store() reach",
    ),
    Meaning(&["-Wpadded"], "", "fill the gap by name, u8 pad[n], or put the largest members first"),
    Meaning(&["file not found"], "", "a capsule has anode/capsule.h and files beside the source, no library of C"),
    Meaning(
        &["of 'capsule'", "of 'an_arena'", "for 'capsule'", "for 'an_arena'"],
        "",
        "have one AN_CAPSULE in a program",
    ),
    Meaning(&["-Wvla"], "", "give the array a constant size"),
    Meaning(&["BPF stack limit"], "the kernel half has 512 bytes of stack, and this function takes more", STACK),
    Meaning(
        &[
            "df3'", "sf3'", "df2'", "sf2'", "'__float", "'__fix", "'__gtdf", "'__ltdf", "'__gedf", "'__ledf", "df' is",
            "sf' is",
        ],
        FLOATS,
        WHOLE,
    ),
    Meaning(
        &["ti3'", "'__ashl", "only small returns"],
        "the kernel half has numbers of 64 bits at most",
        "use numbers of 64 bits",
    ),
    Meaning(
        &["'memcpy'", "'memset'", "'memmove'", "'memcmp'"],
        "the kernel half copies only what has a constant size",
        "use an_copy() and an_zero() with a constant size of at most 512",
    ),
    Meaning(
        &["igned division", "sdiv", "srem"],
        "the kernel half divides numbers without a sign only",
        "divide numbers of a type without a sign, u32 or u64, and see to the sign apart",
    ),
    Meaning(
        &["too many args"],
        "a function of the kernel half has five arguments at most",
        "pass the address of a structure, or make the function AN_INLINE",
    ),
    Meaning(
        &["VarArgs or StructRet"],
        "a function of the kernel half returns a number, and has a fixed list of arguments",
        "have it write to an address that it is given, or make it AN_INLINE",
    ),
    Meaning(
        &["dynamic stack allocation"],
        "the kernel half has no arrays of a size that is computed",
        "give the array a constant size",
    ),
    Meaning(
        &["Cannot select"],
        "the kernel half has no instruction for this",
        "use whole numbers of at most 64 bits and plain assignments; or build with --only wasm",
    ),
    Meaning(&["expected"], "", "write what is missing at the mark"),
    Meaning(&["unused"], "", "use it, or take it out"),
];

/// The remedy for what is in no table.
const OTHER: &str = "docs/capsules.md lists what a program can use";

/// Reads what clang says.
pub(super) fn read(output: &str, names: &Names) -> Vec<Said> {
    let mut found: Vec<Said> = Vec::new();
    // Whether lines belong to a message that is left out: where a macro was written out, or in which file that is.
    let mut aside = false;
    for line in output.lines() {
        if let Some(said) = head(line, names) {
            aside = said.is_none();
            found.extend(said);
        } else if line.starts_with("In file included") || line.ends_with("generated.") {
            aside = true;
        } else if let Some(last) =
            found.last_mut().filter(|said| !aside && said.place.is_some() && said.shown.len() < 2)
        {
            last.shown.push(line.to_owned());
        } else {
            aside = true;
        }
    }
    found
}

/// A line that begins a message: `FILE:LINE:COLUMN: error: …`; inside it nothing for a note.
fn head(line: &str, names: &Names) -> Option<Option<Said>> {
    let levels = [("fatal error: ", true), ("error: ", true), ("warning: ", false), ("note: ", false)];
    if let Some(rest) = line.strip_prefix("Error at line ") {
        return Some(rest.split_once(": ").map(|(number, text)| {
            let place = number.parse().ok().map(|number| (names.source().to_owned(), number));
            Said { place, refuses: true, text: text.to_owned(), shown: Vec::new() }
        }));
    }
    if let Some(text) = line.strip_prefix("fatal error: ").or(line.strip_prefix("Error: ")) {
        return Some(Some(Said { place: None, refuses: true, text: text.to_owned(), shown: Vec::new() }));
    }
    let (level, refuses, at) = levels.iter().find_map(|(level, refuses)| {
        let at = line.find(&format!(": {level}"))?;
        Some((*level, *refuses, at))
    })?;
    let mut parts = line[..at].rsplitn(3, ':');
    let (_, number, file) = (parts.next()?.parse::<u32>().ok()?, parts.next()?.parse().ok()?, parts.next()?);
    let text = line[at + 2 + level.len()..].to_owned();
    Some((level != "note: ").then(|| Said {
        place: Some((names.short(file), number)),
        refuses,
        text,
        shown: Vec::new(),
    }))
}

/// Messages of refusals or the others for people, each once.
pub(super) fn show(said: &[Said], refuses: bool, or_at: Option<&str>) -> String {
    let mut text = String::new();
    let mut before: Vec<(String, String)> = Vec::new();
    for one in said.iter().filter(|one| one.refuses == refuses) {
        let (cause, remedy) = one.meaning();
        let place = match &one.place {
            Some((file, line)) if Path::new(file).file_name() != Some(OsStr::new(HEADER)) => format!("{file}:{line}"),
            _ => or_at.unwrap_or("the source").to_owned(),
        };
        // Two causes of one line may have one remedy; the same cause again says nothing new, wherever.
        if before.iter().any(|(at, why)| *why == cause || (*at == place && refuses)) {
            continue;
        }
        let _ = write!(
            text,
            "{}{place}: {}{cause}",
            if text.is_empty() { "" } else { "\n" },
            if refuses { "" } else { "warning: " }
        );
        for line in one.shown.iter().filter(|_| !one.is_translated()) {
            let _ = write!(text, "\n  {line}");
        }
        let _ = write!(text, "\n  remedy: {remedy}");
        before.push((place, cause));
    }
    text
}

impl Said {
    fn entry(&self) -> Option<&'static Meaning> {
        MEANINGS.iter().find(|Meaning(words, ..)| words.iter().any(|word| self.text.contains(word)))
    }

    fn is_translated(&self) -> bool {
        self.entry().is_some_and(|Meaning(_, cause, _)| !cause.is_empty())
    }

    /// Cause and remedy.
    fn meaning(&self) -> (String, &'static str) {
        match self.entry() {
            Some(Meaning(_, "", remedy)) => (self.text.clone(), remedy),
            Some(Meaning(_, cause, remedy)) => ((*cause).to_owned(), remedy),
            None => (self.text.clone(), OTHER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn names() -> Names {
        Names::new(Path::new("visit.c"), None)
    }

    #[test]
    fn messages_are_told_from_what_stands_around_them() {
        let output = "./visit.c:5:24: error: expected ';' after return statement\n    return an_forward()\n                 ^\n\
                      anode/capsule.h:3:5: note: expanded from macro 'AN_CAPSULE'\n    AN_ENTRY_(name)\n    ^\n1 error generated.\n";
        let said = read(output, &names());
        assert_eq!((said.len(), &said[0].place, said[0].shown.len()), (1, &Some(("visit.c".into(), 5)), 2));
        let text = show(&said, true, None);
        assert!(text.starts_with("visit.c:5: expected ';'") && !text.contains("AN_ENTRY_"), "{text}");
        assert_eq!(show(&said, false, None), "");
    }

    #[test]
    fn words_of_the_back_end_are_translated_and_said_once() {
        let one = "./visit.c:5:9: error: A call to built-in function '__muldf3' is not supported.\n";
        let two = "./visit.c:6:9: error: A call to built-in function '__fixunsdfsi' is not supported.\n";
        let text = show(&read(&[one, two].concat(), &names()), true, None);
        assert_eq!(text, format!("visit.c:5: {FLOATS}\n  remedy: {WHOLE}"));
        let stack =
            "/x/anode/capsule.h:3:9: error: Looks like the BPF stack limit of 512 bytes is exceeded. Please …\n";
        let said = read(&stack.repeat(3).replace("/x/", ""), &names());
        let text = show(&said, true, Some("visit.c:3"));
        assert!(text.starts_with("visit.c:3: the kernel half has 512 bytes") && text.lines().count() == 2, "{text}");
        let crash = "fatal error: error in backend: Cannot select: 0xb657100: i64 = sdiv 0xb6\n  0xb6: i64 = bswap\nPLEASE submit\n";
        let text = show(&read(crash, &names()), true, Some("visit.c:3"));
        assert!(text.starts_with("visit.c:3: the kernel half divides") && !text.contains("0xb6"), "{text}");
    }
}
