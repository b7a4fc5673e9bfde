//! `anode code check`: what each half of a node would say of a program, at its author's desk.
//!
//! ```text
//! source or bundle ─▶ the rules of every node ─▶ user half: yes | no
//!                                             └▶ linker, depth, as root the verifier ─▶ kernel half: yes | no, why, where
//! ```
//!
//! A source is compiled without lines first. They are half of the compiler's work, and what is right needs none.
//!
//! A no of the user half, or a fault that the kernel half finds, ends with status 1. That the kernel half lacks a call is
//! no fault: such code runs in the user half.

use super::describe::At;
use super::{Only, Print, read};
use crate::cli::told;
use crate::code::author::lint::{self, PATIENCE, Prevail};
use crate::code::author::{self, AuthorOptions};
use crate::code::bundle::{Bundle, Kind, Program};
use crate::code::check::{self as rules, disassemble};
use crate::kernel::desk::{self, Verdict};
use crate::trust::limits::Limits;
use anyhow::{Result, bail};
use model::bundles::{Half, Halves, Refused};
use serde_json::json;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub(super) struct Check {
    /// The bundle file, or a source (.c, .wasm, .wat) that is built for it and not kept.
    file: PathBuf,
    /// Payload bytes in the window of a .wasm or .wat source.
    #[arg(long, value_name = "BYTES")]
    window: Option<u32>,
    /// Of a C source only this representation.
    #[arg(long)]
    only: Option<Only>,
    /// The PREVAIL verifier, which is asked for a second opinion of bpf code if it is installed.
    #[arg(long, value_name = "PROGRAM", default_value = lint::PREVAIL)]
    prevail: PathBuf,
    /// Ask for no second opinion.
    #[arg(long, conflicts_with = "prevail")]
    no_lint: bool,
    /// Do not ask the kernel's verifier, also as root.
    #[arg(long)]
    no_verifier: bool,
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    print: Print,
}

/// What is checked.
struct Subject<'a> {
    bundle: Bundle,
    arguments: &'a Check,
    /// The same with lines, once they are needed.
    traced: OnceCell<Option<Bundle>>,
}

impl Subject<'_> {
    /// The same with the lines that there are.
    fn traced(&self) -> &Bundle {
        let Check { file, window, only, .. } = self.arguments;
        let again = || author::build(file, &options(*window, only.map(Only::kind), false)).ok();
        let is_bare = || is_source(file) && self.bundle.lines().is_none();
        let traced = self.traced.get_or_init(|| is_bare().then(again).flatten());
        traced.as_ref().filter(|traced| traced.name() == self.bundle.name()).unwrap_or(&self.bundle)
    }

    fn line(&self, at: usize) -> Option<String> {
        self.traced().lines()?.find(Kind::Bpf, at)
    }
}

/// What the kernel half says: for people, for programs, and the refusal, if it is one.
struct KernelHalf {
    says: String,
    half: Half,
    refusal: Option<String>,
}

/// What a half says before it says why.
fn half(runs: bool) -> Half {
    Half { runs, ..Half::default() }
}

pub(super) fn run(arguments: &Check) -> Result<ExitCode> {
    let Check { file, prevail, no_lint, at, print, .. } = arguments;
    let subject = Subject { bundle: bundle(arguments)?, arguments, traced: OnceCell::new() };
    let bundle = &subject.bundle;
    let report = match rules::check(bundle) {
        Ok(report) => report,
        Err(refusal) => return refused(file, subject.traced(), &refusal, print),
    };
    let mut described = at.describe(bundle, Some(&report))?;
    let user = if report.wasm.is_some() { "yes" } else { "no, it has no wasm representation" };
    let kernel = kernel_half(&subject)?;
    let mut opinion = None;
    if let Some(bytes) = bundle.representation(Kind::Bpf).filter(|_| !no_lint) {
        let lint = lint::lint(
            &Prevail { program: prevail.clone(), patience: PATIENCE },
            bytes,
            bundle.manifest().window(),
            |at| subject.line(at),
        )?;
        opinion = Some(lint);
    }
    if print.json {
        described.user_half = Some(half(report.wasm.is_some()));
        described.kernel_half = Some(kernel.half);
        described.lint = opinion.as_ref().map(told).transpose()?;
        print.show(&described);
    } else {
        let mut value = serde_json::to_value(&described)?;
        (value["user_half"], value["kernel_half"]) = (json!(user), json!(kernel.says));
        if let Some(lint) = opinion {
            value["lint"] = json!(lint.to_string());
        }
        print.show(&value);
    }
    match kernel.refusal {
        Some(refusal) if !print.json => bail!("{refusal}"),
        Some(_) => Ok(ExitCode::FAILURE),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn is_source(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ["c", "wasm", "wat"].iter().any(|known| ending == *known))
}

fn options(window: Option<u32>, only: Option<Kind>, bare: bool) -> AuthorOptions {
    AuthorOptions { window, only, bare, ..AuthorOptions::default() }
}

/// The bundle of a file, or of a source, built for this.
fn bundle(arguments: &Check) -> Result<Bundle> {
    let Check { file, window, only, print, .. } = arguments;
    if !is_source(file) {
        return read(file);
    }
    let build = |bare| author::build_with_warnings(file, &options(*window, only.map(Only::kind), bare));
    if let Ok((bundle, warnings)) = build(true)
        && warnings.is_empty()
    {
        return Ok(bundle);
    }
    match build(false) {
        Ok((bundle, warnings)) => {
            if !warnings.is_empty() {
                crate::say_err!("{warnings}");
            }
            Ok(bundle)
        }
        Err(error) if error.is_of_kernel_half() && only.is_none() => {
            // The other half may take it. If not, what it says is about something else.
            if let Ok(other) = author::build(file, &options(*window, Some(Kind::Wasm), false)) {
                let runs = rules::check(&other).is_ok();
                let kernel_half = Half { refused: Some(error.to_string()), ..half(false) };
                if print.is_json() {
                    print.show(&Halves { user_half: half(runs), kernel_half });
                } else {
                    print.show(&json!({"user_half": if runs { "yes" } else { "no" }, "kernel_half": "no"}));
                }
            }
            Err(error.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Asks the kernel half, as far as that can be done here.
fn kernel_half(subject: &Subject<'_>) -> Result<KernelHalf> {
    let Subject { bundle, arguments, .. } = subject;
    let no = |why: &str| KernelHalf {
        says: format!("no, {why}"),
        half: Half { why: Some(why.into()), ..half(false) },
        refusal: None,
    };
    let Some(bytes) = bundle.representation(Kind::Bpf) else { return Ok(no("it has no bpf representation")) };
    let program = Program::parse(bytes)?;
    let loader = match (arguments.no_verifier, rustix::process::geteuid().is_root()) {
        (true, _) => Err("its verifier was not asked (--no-verifier)".to_owned()),
        (_, false) => Err("its verifier is asked as root only".to_owned()),
        _ => std::env::current_exe().map_err(|error| error.to_string()),
    };
    // Of what a function of the header does, the author's line is the one before it.
    let line = |at: usize| {
        let before = (0..=at.min(program.code.len())).rev();
        let mut places = before.filter_map(|at| subject.line(at));
        places.find(|place| !place.starts_with("anode/"))
    };
    Ok(match desk::verdict(&program, bundle.manifest().window(), &Limits::default(), loader)? {
        Verdict::Takes(Ok(verified)) => KernelHalf {
            says: format!("yes, its verifier goes through {verified} instructions"),
            half: Half { verified_instructions: Some(verified.into()), ..half(true) },
            refusal: None,
        },
        Verdict::Takes(Err(why)) => KernelHalf {
            says: format!("yes by the checks of this program; {why}"),
            half: Half { unverified: Some(why.to_string()), ..half(true) },
            refusal: None,
        },
        Verdict::Lacks(call) => {
            let index = program.symbols.iter().position(|symbol| *symbol == call);
            let calls = |insn: &crate::code::bundle::Insn| {
                insn.opcode == 0x85 && insn.src == 14 && Some(insn.imm as usize) == index
            };
            let source = program.code.iter().position(calls).and_then(line);
            let place = source.as_ref().map_or_else(String::new, |source| format!(" ({source})"));
            let why = format!("{call} is not there{place}: the code runs in the user half");
            let lacks = Half { why: Some(why.clone()), lacks: Some(call.to_string()), source, ..half(false) };
            KernelHalf { half: lacks, ..no(&why) }
        }
        Verdict::Refuses(fault) => {
            let source = line(fault.at.unwrap_or(0));
            let instruction = fault.at.filter(|at| *at < program.code.len());
            let instruction = instruction.map(|at| format!("{at}: {}", disassemble(&program, at)));
            let place = source.clone().unwrap_or_else(|| arguments.file.display().to_string());
            let shown = instruction.as_ref().map_or_else(String::new, |text| format!("\n  instruction: {text}"));
            KernelHalf {
                says: "no".into(),
                half: Half {
                    refused: Some(fault.why.to_string()),
                    source,
                    instruction,
                    remedy: Some(fault.remedy.to_string()),
                    ..half(false)
                },
                refusal: Some(format!("{place}: {}{shown}\n  remedy: {}", fault.why, fault.remedy)),
            }
        }
    })
}

/// Says why a bundle is refused.
fn refused(file: &Path, bundle: &Bundle, refusal: &rules::BundleRefusal, print: &Print) -> Result<ExitCode> {
    let explanation = refusal.explain(bundle);
    if print.json {
        print.show(&Refused {
            name: bundle.name().to_string(),
            checked: false,
            refused: refusal.to_string(),
            representation: explanation.as_ref().map(|why| why.kind.to_string()),
            instruction: explanation.as_ref().and_then(|why| why.instruction.clone()),
            source: explanation.as_ref().and_then(|why| why.source.clone()),
            remedy: explanation.and_then(|why| why.remedy).map(str::to_owned),
        });
        return Ok(ExitCode::FAILURE);
    }
    match explanation {
        Some(why) if why.source.is_some() => bail!("{why}"),
        Some(why) => bail!("{}: {why}", file.display()),
        None => bail!("{}: {refusal}", file.display()),
    }
}
