//! C's layout of the structures shared by programs and this library: checks by the names in `sdk/anode/nodeos.h`, and
//! the header's numbers.
//!
//! The build makes all of it (`build.rs`). A structure here is compared with its own by a line
//! `layout::an_Usage!(CUsage);`: its size, and name, place and size of each field. A different one does not compile,
//! and the message says which field and where C has it.

include!(concat!(env!("OUT_DIR"), "/layout.rs"));

/// The bytes of a field.
pub(crate) const fn extent<S, F>(_: fn(&S) -> &F) -> usize {
    size_of::<F>()
}

#[cfg(test)]
mod tests {
    const HEADER: &str = include_str!("../../sdk/anode/nodeos.h");
    const CONTRACT: &str = include_str!("../contract.c");

    #[test]
    fn every_structure_and_error_of_the_header_is_compared() {
        let structures = HEADER.lines().filter_map(|line| {
            line.trim_start_matches("typedef ")
                .strip_prefix("struct ")?
                .strip_suffix(" {")
                .map(|name| format!("SHARED({name});"))
        });
        let errors = HEADER.lines().filter_map(|line| {
            let (name, _) = line.strip_prefix("    AN_E")?.split_once(" = ")?;
            Some(format!("NUMBER(AN_E{name}),"))
        });
        let all: Vec<_> = structures.chain(errors).collect();
        assert!(all.len() > 20, "{all:?}");
        let missing = all.iter().filter(|line| !CONTRACT.lines().any(|known| known.trim() == *line));
        assert_eq!(missing.collect::<Vec<_>>(), [&""; 0], "a line in libanode/contract.c");
    }
}
