//! The host's code: made by Cranelift, and kept where the host may execute it.

use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{Context, isa};
use cranelift_frontend::FunctionBuilderContext;
use memmap2::{Mmap, MmapMut};

use super::helpers::Helpers;
use super::region::Region;
use super::{Exit, translate};
use crate::layout::Layout;

/// One function.
#[derive(Debug)]
pub(super) struct Code(Mmap);

impl Code {
    fn new(bytes: &[u8]) -> Option<Self> {
        let mut map = MmapMut::map_anon(bytes.len()).ok()?;
        map.copy_from_slice(bytes);
        Some(Self(map.make_exec().ok()?))
    }

    /// Where it begins.
    #[inline(always)]
    pub(super) fn start(&self) -> *const u8 {
        self.0.as_ptr()
    }
}

/// Whether code that is made may be run at once: where caches of instructions have to be told of it, nobody
/// does so here.
pub(super) const RUNS_HERE: bool = cfg!(all(target_arch = "x86_64", unix));

/// Makes functions of traces.
pub(super) struct Generator {
    isa: OwnedTargetIsa,
    context: Context,
    builder: FunctionBuilderContext,
}

impl std::fmt::Debug for Generator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Generator").finish_non_exhaustive()
    }
}

impl Generator {
    /// For this host.
    pub(super) fn new() -> Option<Self> {
        let mut flags = settings::builder();
        // What Cranelift would look for is not there, and to look takes half as long again.
        flags.set("opt_level", "none").ok()?;
        flags.set("unwind_info", "false").ok()?;
        let verifies = if cfg!(debug_assertions) {
            "true"
        } else {
            "false"
        };
        flags.set("enable_verifier", verifies).ok()?;
        let isa = isa::lookup(target_lexicon::Triple::host())
            .ok()?
            .finish(settings::Flags::new(flags))
            .ok()?;
        Some(Self {
            isa,
            context: Context::new(),
            builder: FunctionBuilderContext::new(),
        })
    }

    /// The code of a trace, and where it may be left.
    pub(super) fn trace<Hint>(
        &mut self,
        region: &Region,
        layout: &Layout,
        helpers: &Helpers,
    ) -> Option<(Code, Box<[Exit]>)> {
        self.context.clear();
        let function = &mut self.context.func;
        let convention = CallConv::triple_default(self.isa.triple());
        let exits = translate::trace::<Hint>(
            (function, &mut self.builder, convention),
            region,
            layout,
            helpers,
        );
        let compiled = self
            .context
            .compile(&*self.isa, &mut ControlPlane::default());
        let buffer = compiled.ok()?;
        debug_assert!(buffer.buffer.relocs().is_empty());
        Some((Code::new(buffer.code_buffer())?, exits))
    }
}
