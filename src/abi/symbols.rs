//! The symbols that mobile code may call, such as `an_now` and `an_send`: the contract of `sdk/anode/capsule.h`, as
//! data.
//!
//! Both checks, the linker of the kernel half and the wasm run-time read this one table, so a call exists everywhere or
//! nowhere. A new call is one line here, one declaration in the header, one line in `docs/bundle.md`, and its
//! implementation in each half.

use core::fmt;

/// The type of an argument or result, as WebAssembly sees it. Pointers are `I32` there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// 32 bits: `u32`, `int`, and in wasm the address of a structure.
    I32,
    /// 64 bits: `u64`.
    I64,
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Type::I32 => "i32",
            Type::I64 => "i64",
        })
    }
}

/// A call that a node offers to mobile code.
#[derive(Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name in C, in wasm imports and in the symbol table of bpf code.
    pub name: &'static str,
    /// The types of its arguments, at most five.
    pub arguments: &'static [Type],
    /// The type of its result.
    pub result: Type,
}

impl Symbol {
    /// Whether the call may change memory of the code.
    pub fn writes(&self) -> bool {
        let reads = ["an_now", "an_random", "an_load", "an_neighbours", "an_link_load", "an_link_queue"];
        let keeps = ["an_state_put", "an_state_add", "an_state_max", "an_state_exchange"];
        let does = ["an_send", "an_log", "an_graph_wish"];
        !(does.contains(&self.name) || reads.contains(&self.name) || keeps.contains(&self.name))
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name)?;
        for (i, argument) in self.arguments.iter().enumerate() {
            write!(f, "{}{argument}", if i == 0 { "" } else { ", " })?;
        }
        write!(f, ") -> {}", self.result)
    }
}

/// The symbol of this name, if mobile code may call it.
pub fn symbol(name: &str) -> Option<&'static Symbol> {
    SYMBOLS.iter().find(|symbol| symbol.name == name)
}

use Type::{I32, I64};

const fn call(name: &'static str, arguments: &'static [Type], result: Type) -> Symbol {
    Symbol { name, arguments, result }
}

/// Every symbol of interface version 1, in the order of `capsule.h`.
pub static SYMBOLS: [Symbol; 18] = [
    call("an_now", &[], I64),
    call("an_random", &[], I64),
    call("an_node_name", &[I32], I32),
    call("an_load", &[I32, I32], I64),
    call("an_store", &[I32, I64, I32], I32),
    call("an_state_get", &[I64, I32], I32),
    call("an_state_put", &[I64, I32, I32], I32),
    call("an_state_add", &[I64, I64, I32], I64),
    call("an_state_max", &[I64, I64, I32], I64),
    call("an_state_exchange", &[I64, I64, I32, I32], I32),
    call("an_neighbours", &[], I32),
    call("an_neighbour", &[I32, I32], I32),
    call("an_route", &[I32, I32], I32),
    call("an_link_load", &[I32], I32),
    call("an_link_queue", &[I32], I32),
    call("an_send", &[I32], I32),
    call("an_log", &[I32, I64], I32),
    call("an_graph_wish", &[I32], I32),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_declares_every_symbol_with_as_many_arguments() {
        let header = include_str!("../../sdk/anode/capsule.h");
        let declared = header.matches("AN_CALL(an_").count();
        assert_eq!(declared, SYMBOLS.len(), "header and table list the same calls");
        for symbol in &SYMBOLS {
            let line = header.split(&format!("AN_CALL({}) ", symbol.name)).nth(1).expect(symbol.name);
            let line = line.split(';').next().unwrap();
            let arguments = line.split_once('(').unwrap().1.trim_end_matches(')');
            let count = if arguments == "void" { 0 } else { arguments.split(',').count() };
            assert_eq!(count, symbol.arguments.len(), "{symbol}");
            assert_eq!(line.starts_with("u64 "), symbol.result == Type::I64, "{symbol}");
        }
    }
}
