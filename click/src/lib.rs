//! Click's configuration language: from text to a flat graph of elements whose ports are checked.
//!
//! A packet goes from element to element. Each element has a *class*, which says what it does, and a configuration, which the
//! class reads. This graph counts what comes in by one device, keeps ten packets at most, and sends them out by another:
//!
//! ```text
//! in :: FromDevice(eth0);                      // a declaration: name :: Class(configuration)
//! in -> Counter -> Queue(10) -> ToDevice(eth1);    // a connection; Counter and the rest have no names
//! ```
//!
//! # The language
//!
//! | written | means |
//! |---|---|
//! | `a :: Class(x, y)`, `a, b :: Class` | elements by their names; configurations are arguments between commas |
//! | `a -> b`, `a [1] -> [0] b` | output 1 of `a` to input 0 of `b`; a port that is not written is 0 |
//! | `a -> Class(x) -> b :: Class -> c` | a chain, in which elements may be declared, or new without a name |
//! | `a, b -> c`, `a -> b, c` | many to one, one to many |
//! | `a [0, 1] => [0] b, [0] c` | the first to the first, the second to the second |
//! | `[0-3]`, `[2-]`, `[]` | ports 0 to 3; 2 and as many behind it as are needed; the same from 0 on |
//! | `{ input -> Queue -> output }` | a *compound*: elements that are used as one |
//! | `{ -> Queue -> }` | the same: where a chain begins or ends with an arrow, `input` and `output` are meant |
//! | `elementclass Name { … }`, `elementclass Name Other` | a compound by a name; another name of a class |
//! | `{ $rate, LIMIT $limit \| … }` | a compound with parameters, used as `Name(5, LIMIT 10)` |
//! | `{ __REST__ $rest \| … }` | a parameter that is all arguments that no other one has taken |
//! | `{ … \|\| $a \| … \|\| ... }` | several bodies: the one is taken that fits; `...` is the class that had the name before |
//! | `( [0] -> Strip(14) -> [0] )` | a group: elements of the same scope, with an input and an output of their own |
//! | `define($rate 5)` | a variable; `$rate` and `${rate}` in a configuration are its value, `${rate-7}` is 7 if there is none |
//! | `require(name)`, `provide(name)` | a package that must be here; one that this file is |
//! | `a :: Class(x) @remote(NODE)` | an element at another node; so are those of a compound with a place (our own word) |
//! | `a :: Class(x) @kernel`, `@user`, `@auto` | the half of this node that has it: places too, and the nearest one counts |
//! | `connectiontunnel a -> b` | what goes into `a` comes out of `b` (of the older language) |
//! | `// …`, `/* … */`, `# 12 "file"` | comments; a line directive, which changes nothing here |
//! | `"a, b\n"`, `'a'`, `\<0800 45>` | in a configuration: a string with escapes, one without, bytes in hexadecimal |
//!
//! Names are declared before they are used, and classes see what was defined before them. An element `q` of a compound `c` is
//! `c/q` in the flat graph; one without a name is called after its class, `Queue@3`. Semicolons between statements may be left out.
//!
//! # Push and pull
//!
//! A device that receives *pushes* packets to the element behind it, and one that sends *pulls* from the element before it. A queue
//! is between them. Other elements can do either. [`check()`] finds out what each port does, and says where a push meets a pull,
//! what is not connected, and what is connected twice. It is told of classes by [`classes::Classes`].
//!
//! ```
//! use click::classes::{Class, Processing, Table};
//!
//! let mut table = Table::default();
//! table.add("FromDevice", Class::new("0/1")?.processing("h")?);
//! table.add("Queue", Class::new("1-/1")?.processing("h/l")?);
//! table.add("Counter", Class::new("1/1")?);
//! table.add("ToDevice", Class::new("1/0")?.processing("l")?);
//!
//! let text = "FromDevice(eth0) -> Queue(10) -> c :: Counter -> ToDevice(eth1);";
//! let checked = click::check(text, &table).graph.expect("nothing is wrong");
//! assert_eq!(checked.graph.elements[1].arguments[0].text, "10");
//! assert_eq!(checked.ports[2].inputs[0].processing, Processing::Pull);
//!
//! let wrong = click::check("FromDevice(eth0) -> ToDevice(eth1);", &table);
//! assert_eq!(wrong.diagnostics[0].message, "push and pull meet");
//! # Ok::<(), click::classes::CodeError>(())
//! ```
//!
//! # The way of a text
//!
//! ```text
//! source ─▶ syntax ─▶ elaborate ─▶ graph ─▶ flow        lexer and parser; names and compounds; ports
//!    ▲         │                     │
//!    └─ format ┘◀────── as text ─────┘
//! ```
//!
//! Texts come from strangers: each size has a bound, and whoever passes one is told its name. The crate does no I/O and reads no
//! clock. Diagnostics are those of PLAN, so that both languages say their mistakes alike.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod arguments;
pub mod check;
pub mod classes;
mod code;
pub mod cut;
pub mod edit;
mod elaborate;
pub mod flow;
pub mod format;
pub mod graph;
mod mistakes;
pub mod syntax;
mod text;
mod variables;

pub use check::{check, check_with};
pub use plan::{diagnostic, source, span};
