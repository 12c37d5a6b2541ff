//! Other sources of instructions in the same machine: nothing that is observable changes.
//!
//! One comes back at random beginnings of blocks, one forgets all that it has decoded as often, one makes
//! every hit by the description of the hit path alone, as generated code would.

use perdure::port::Door;
use perdure::request::Request;
use perdure::source::{Engine, Engines, Exit, Registers, Source};
use perdure_hardware::random::Random;
use perdure_riscv::fast::Pace;
use perdure_riscv::{Direct, Layout, Memory, Scalar, fast, hand_on, plain};
use serde_json::json;

use crate::common;
use crate::engines::{Either, WHOLE, end_of};

/// Memory with another way to hit, and a limit that may be nearer.
struct Around<'m, M, H> {
    memory: &'m mut M,
    hits: H,
    limit: u64,
}

/// How accesses hit.
trait Hits {
    /// Whether the memory's own way must hit nothing more.
    const ALL: bool;
    /// The value of a load that hits.
    fn load(&mut self, address: u64, bytes: usize) -> Option<u64>;
    /// True for a store that hits; it is done.
    fn store(&mut self, address: u64, value: u64, bytes: usize) -> bool;
}

impl<M: Memory, H: Hits> Memory for Around<'_, M, H> {
    type FetchHint = M::FetchHint;

    fn limit(&self) -> u64 {
        self.limit.min(self.memory.limit())
    }
    fn load_hit<T: Scalar>(&mut self, address: u64, retired: u64) -> Option<T> {
        let value = self.hits.load(address, T::BYTES);
        if H::ALL && value.is_none() {
            let own = self.memory.load_hit::<T>(address, retired);
            assert!(own.is_none(), "a load at {address:#x} hits");
        }
        value.map(T::from_u64)
    }
    fn store_hit<T: Scalar>(&mut self, address: u64, value: T, retired: u64) -> bool {
        let hit = self.hits.store(address, value.to_u64(), T::BYTES);
        if H::ALL && !hit {
            let own = self.memory.store_hit(address, value, retired);
            assert!(!own, "a store at {address:#x} hits");
        }
        hit
    }

    hand_on!(memory: load store fetch fetch_again load_reserved store_conditional atomic cache_block);
    hand_on!(memory: store_non_temporal barrier fence fence_instruction persistence cycle time);
}

/// Every access is asked of the memory.
struct Asked;

impl Hits for Asked {
    const ALL: bool = false;
    fn load(&mut self, _: u64, _: usize) -> Option<u64> {
        None
    }
    fn store(&mut self, _: u64, _: u64, _: usize) -> bool {
        false
    }
}

/// The plain and the fast engine in turn, each until a random limit.
#[derive(Clone)]
struct Restless {
    either: Either,
    random: Random,
}

impl Source for Restless {
    type Choice = u64;

    fn new(seed: u64) -> Self {
        Self {
            either: Either::new(seed),
            random: Random::new(seed),
        }
    }
    fn run(&mut self, registers: &mut Registers, door: Door) -> Exit {
        if self.random.below(8) == 0 {
            self.forget();
        }
        if self.random.below(3) == 0 {
            return self.either.run(registers, door);
        }
        let limit = registers.retired + 1 + self.random.below(300);
        let mut memory = Around {
            memory: &mut door.open::<true>(),
            hits: Asked,
            limit,
        };
        plain::run(registers, &mut memory)
    }
    fn forget(&mut self) {
        self.either.forget();
    }
}

/// Hits by the description alone: addresses, offsets, masks.
struct Described(&'static Layout, Direct);

impl Described {
    /// Where the bytes are of an access that hits; it is counted.
    fn hit(&mut self, address: u64, bytes: usize, store: bool) -> Option<*mut u8> {
        let Self(layout, direct) = self;
        let [first, second, third] = layout.index_shifts;
        let index = (address >> first ^ address >> second ^ address >> third) % layout.entries;
        let tag_at = if store {
            layout.write_tag
        } else {
            layout.read_tag
        };
        let field = |at: usize| (layout.entry_bytes * index) as usize + at;
        let entries = direct.entries;
        // SAFETY: what the description promises: the entries, their fields, and where these point to while
        // a tag matches.
        unsafe {
            let tag = entries.byte_add(field(tag_at)).read();
            if tag != address & Layout::tag_mask(bytes as u64) {
                return None;
            }
            *direct.accesses += 1;
            *direct.stores += u64::from(store);
            let stamp = entries.byte_add(field(layout.stamp)).cast::<*mut u64>();
            **stamp = *direct.accesses;
            let line = entries.byte_add(field(layout.bytes)).cast::<*mut u8>();
            Some((*line).add(address as usize % 64))
        }
    }
}

impl Hits for Described {
    const ALL: bool = true;
    fn load(&mut self, address: u64, bytes: usize) -> Option<u64> {
        let place = self.hit(address, bytes, false)?;
        let mut value = [0; 8];
        // SAFETY: a hit lies within its line.
        unsafe { place.copy_to_nonoverlapping(value.as_mut_ptr(), bytes) };
        Some(u64::from_le_bytes(value))
    }
    fn store(&mut self, address: u64, value: u64, bytes: usize) -> bool {
        let Some(place) = self.hit(address, bytes, true) else {
            return false;
        };
        // SAFETY: a hit lies within its line.
        unsafe { place.copy_from_nonoverlapping(value.to_le_bytes().as_ptr(), bytes) };
        true
    }
}

fn layout_of<M: Memory>(_: &M) -> Option<&'static Layout> {
    M::LAYOUT
}

/// The fast engine, whose hits are made by the description.
#[derive(Clone)]
struct Generated;

impl Source for Generated {
    type Choice = ();

    fn new((): ()) -> Self {
        Self
    }
    fn run(&mut self, registers: &mut Registers, door: Door) -> Exit {
        let mut port = door.open::<true>();
        let direct = port.direct();
        // SAFETY: the limit of a port that is open.
        assert_eq!(unsafe { *direct.limit }, port.limit());
        let layout = layout_of(&port).expect("a port with shortcuts has one");
        let mut memory = Around {
            memory: &mut port,
            hits: Described(layout, direct),
            limit: u64::MAX,
        };
        fast::run(registers, &mut memory, &mut fast::BlockCache::default())
    }
    fn forget(&mut self) {}
}

fn compare(design: &str) {
    let program = "@exerciser:2000:64:300:2";
    let more = json!({"machine": common::machine_of(design), "harts": 2});
    let asked = common::with(common::request(design, program), more);
    let request = Request::parse(&asked.to_string()).expect("a request");
    let prepared = request.prepare().expect("it can run");
    let expected = end_of::<Engines>(&prepared, Engine::Fast, WHOLE);
    for seed in crate::rigs::seeds(1) {
        let restless = end_of::<Restless>(&prepared, seed, WHOLE);
        assert_eq!(
            restless, expected,
            "{design}: at random limits, seed {seed}"
        );
    }
    let compiled = end_of::<Engines>(&prepared, Engine::Compiled(Pace::EAGER), WHOLE);
    assert_eq!(compiled, expected, "{design}: compiled");
    let generated = end_of::<Generated>(&prepared, (), WHOLE);
    assert_eq!(generated, expected, "{design}: by the description");
}

/// One design that is asked of nothing, one that logs, and one whose sharing groups go on by themselves; the
/// others meet the same machine.
#[test]
fn another_source_gives_the_same_machine() {
    compare("ideal");
    compare("picl");
    compare("nvoverlay");
}
