//! NVIDIA's assembler and disassembler: what a kernel takes from the machine.

use super::Target;
use crate::process::{self, Show};
use crate::{Error, setup};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The two programs.
#[derive(Clone, Debug)]
pub struct Assembler {
    ptxas: PathBuf,
    nvdisasm: PathBuf,
}

/// What one function takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of stack.
    pub stack_bytes: u32,
    /// Bytes stored to local memory for want of registers.
    pub spill_store_bytes: u32,
    /// Bytes loaded back.
    pub spill_load_bytes: u32,
    /// Machine instructions, padding left out.
    pub instructions: u32,
}

impl Assembler {
    /// Looks where set-up puts them, then on `PATH`.
    pub fn find(root: &Path) -> Result<Self, Error> {
        let program = |name: &str| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::iter::once(setup::cuda_folder(root))
                .chain(std::env::split_paths(&path))
                .map(|folder| folder.join(name))
                .find(|file| file.is_file())
                .ok_or_else(|| {
                    Error::Environment(format!(
                        "{name} is not there. Cure: `cargo xtask setup`, or install CUDA's tools \
                         and put them on PATH"
                    ))
                })
        };
        Ok(Self {
            ptxas: program("ptxas")?,
            nvdisasm: program("nvdisasm")?,
        })
    }

    /// Assembles a PTX file, each function once and for itself.
    ///
    /// # Errors
    /// What the assembler says against it.
    pub fn check(&self, ptx: &Path, target: Target) -> Result<(), Error> {
        let mut command = self.command(ptx, target);
        command.arg("--compile-only");
        command.arg("--output-file").arg(ptx.with_extension("o"));
        process::run_well(&mut command, LIMIT, Show::Nothing)?;
        Ok(())
    }

    fn command(&self, ptx: &Path, target: Target) -> Command {
        let mut command = Command::new(&self.ptxas);
        command.arg(format!("--gpu-name={target}")).arg(ptx);
        command
    }

    /// Assembles a PTX file, each kernel with what it calls; what each of its functions takes, by
    /// symbol.
    pub fn assemble(
        &self,
        ptx: &Path,
        target: Target,
    ) -> Result<BTreeMap<String, Resources>, Error> {
        let cubin = ptx.with_extension("cubin");
        let mut command = self.command(ptx, target);
        command.arg("--verbose").arg("--output-file").arg(&cubin);
        let told = process::run_well(&mut command, LIMIT, Show::Nothing)?;
        let mut found = resources(&format!("{}\n{}", told.stdout, told.stderr));

        let mut command = Command::new(&self.nvdisasm);
        let listing = process::run_well(command.arg("-c").arg(&cubin), LIMIT, Show::Nothing)?;
        for (name, count) in instructions(&listing.stdout) {
            if let Some(resources) = found.get_mut(&name) {
                resources.instructions = count;
            }
        }
        Ok(found)
    }
}

/// Reads what `ptxas --verbose` tells.
fn resources(text: &str) -> BTreeMap<String, Resources> {
    let mut found: BTreeMap<String, Resources> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some((_, name)) = line.split_once("Function properties for ") {
            current = name.trim().to_owned();
            found.entry(current.clone()).or_default();
        }
        let Some(resources) = found.get_mut(&current) else {
            continue;
        };
        let mut take = |unit: &str, field: fn(&mut Resources) -> &mut u32| {
            if let Some(number) = number_before(line, unit) {
                *field(resources) = number;
            }
        };
        take(" bytes stack frame", |resources| &mut resources.stack_bytes);
        take(" bytes spill stores", |resources| {
            &mut resources.spill_store_bytes
        });
        take(" bytes spill loads", |resources| {
            &mut resources.spill_load_bytes
        });
        take(" registers", |resources| &mut resources.registers);
    }
    found
}

fn number_before(line: &str, unit: &str) -> Option<u32> {
    let (before, _) = line.split_once(unit)?;
    before.rsplit([' ', ',']).next()?.parse().ok()
}

/// Counts the instructions of each function in the listing of `nvdisasm -c`, less the padding at
/// its end. A function that several kernels call is there once for each; the largest counts.
fn instructions(listing: &str) -> BTreeMap<String, u32> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut kernel = String::new();
    let mut current: Option<(String, u32)> = None;
    let mut before = "";
    for line in listing.lines().chain([".section\t"]) {
        let next = if line.trim_start().starts_with(".section\t") {
            Some(section(line).inspect(|name| kernel.clone_from(name)))
        } else {
            outlined(line, &kernel).map(Some)
        };
        if let Some(next) = next {
            if let Some((name, count)) = current.take() {
                let known = counts.entry(name).or_default();
                *known = count.max(*known);
            }
            current = next.map(|name| (name, 0));
        } else if let Some((_, count)) = &mut current {
            *count += u32::from(is_instruction(line, before));
        }
        before = line;
    }
    counts
}

/// The kernel whose code a section holds.
fn section(line: &str) -> Option<String> {
    let name = line
        .trim_start()
        .strip_prefix(".section\t")?
        .trim()
        .split([',', ' '])
        .next()?;
    name.strip_prefix(".text.").map(str::to_owned)
}

/// The function that starts at a label `$kernel$function:`.
fn outlined(line: &str, kernel: &str) -> Option<String> {
    let label = line.strip_suffix(':')?.strip_prefix('$')?;
    label
        .strip_prefix(kernel)?
        .strip_prefix('$')
        .map(str::to_owned)
}

fn is_instruction(line: &str, before: &str) -> bool {
    let Some((address, code)) = line.split_once("*/") else {
        return false;
    };
    let code = code.trim();
    // The assembler fills up with a branch to itself and with nothings.
    let own_label = before.strip_suffix(':').unwrap_or("-");
    let is_padding = code.starts_with("NOP")
        || (code.starts_with("BRA") && code.contains(&format!("({own_label})")));
    address.trim().starts_with("/*") && !code.is_empty() && !is_padding
}

const LIMIT: Duration = Duration::from_secs(1200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_assembler_is_understood() {
        let text = "ptxas info    : 0 bytes gmem\n\
            ptxas info    : Compiling entry function 'a' for 'sm_80'\n\
            ptxas info    : Function properties for a\n    \
            16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n\
            ptxas info    : Used 12 registers, used 0 barriers, 360 bytes cmem[0]\n\
            ptxas info    : Function properties for b\n    \
            0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n";
        let found = resources(text);
        let a = Resources {
            registers: 12,
            stack_bytes: 16,
            spill_store_bytes: 4,
            spill_load_bytes: 8,
            instructions: 0,
        };
        assert_eq!(found["a"], a);
        assert_eq!(found["b"], Resources::default());
    }

    #[test]
    fn the_disassembler_is_understood() {
        let listing = r#"
	.section	.text.a,"ax",@progbits
	.sectioninfo	@"SHI_REGISTERS=14"
.text.a:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/              @!P0 EXIT ;
.L_x_2:
        /*0020*/                   LDG.E.64 R4, [R2.64+-0x18] ;
        /*0030*/                   BRA `(.L_x_2) ;
        .type           $a$_RNv1f,@function
$a$_RNv1f:
        /*0040*/                   RET.REL.NODEC R6 `(a) ;
.L_x_0:
        /*0050*/                   BRA `(.L_x_0);
        /*0060*/                   NOP;
	.section	.nv.info,"",@"SHT_CUDA_INFO"
        /*0000*/        .byte   0x04
"#;
        let expected = BTreeMap::from([("a".to_owned(), 4), ("_RNv1f".to_owned(), 1)]);
        assert_eq!(instructions(listing), expected);
    }
}
