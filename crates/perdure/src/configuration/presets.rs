//! The machines that come with Perdure.
//!
//! Always true here: the first one has every key, and says what it means.

/// The presets that come with Perdure: name, TOML.
pub const MACHINES: &[(&str, &str)] = &[
    ("picl", include_str!("../../../../machines/picl.toml")),
    (
        "nvoverlay",
        include_str!("../../../../machines/nvoverlay.toml"),
    ),
    (
        "nvoverlay-paper",
        include_str!("../../../../machines/nvoverlay-paper.toml"),
    ),
    ("x86-pm", include_str!("../../../../machines/x86-pm.toml")),
    ("arm-pm", include_str!("../../../../machines/arm-pm.toml")),
    ("spms", include_str!("../../../../machines/spms.toml")),
    ("nearpm", include_str!("../../../../machines/nearpm.toml")),
    (
        "nearpm-dimm",
        include_str!("../../../../machines/nearpm-dimm.toml"),
    ),
    (
        "nearpm-cxl",
        include_str!("../../../../machines/nearpm-cxl.toml"),
    ),
    ("xeon-pm", include_str!("../../../../machines/xeon-pm.toml")),
];

/// The first sentence of the comment that a preset begins with.
pub fn summary(preset: &str) -> String {
    let comment = preset.lines().map_while(|line| line.strip_prefix('#'));
    let text = comment.map(str::trim).collect::<Vec<_>>().join(" ");
    let end = text.find(". ").map_or(text.len(), |dot| dot + 1);
    text[..end].to_owned()
}
