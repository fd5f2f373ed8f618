//! Colours of GPUs.

/// Fill colours, each with the colour of the text on it. The first come from the Okabe-Ito palette; each further one is
/// the colour of moderate chroma farthest in CIELAB from all colours before it.
#[rustfmt::skip]
pub(super) const COLORS: [(&str, &str); 24] = [
    ("#0072b2", "#fff"), ("#e69f00", "#000"), ("#009e73", "#000"), ("#cc79a7", "#000"), ("#56b4e9", "#000"),
    ("#d55e00", "#000"), ("#f0e442", "#000"), ("#332288", "#fff"), ("#544800", "#fff"), ("#780c18", "#fff"),
    ("#fcb490", "#000"), ("#609000", "#000"), ("#cce49c", "#000"), ("#a890fc", "#000"), ("#0c483c", "#fff"),
    ("#fc606c", "#000"), ("#543048", "#fff"), ("#60f0f0", "#000"), ("#9c0078", "#fff"), ("#6cf090", "#000"),
    ("#00540c", "#fff"), ("#e4ccfc", "#000"), ("#b49c48", "#000"), ("#9c6054", "#fff"),
];

/// The colours for host code.
pub(super) const GREY: (&str, &str) = ("#8b949e", "#000");

#[cfg(test)]
mod tests {
    use super::super::STYLE;
    use super::*;

    #[test]
    fn colours_are_all_different_and_can_be_written_on_and_told_from_the_page() {
        let all: Vec<Rgb> = COLORS.into_iter().chain([GREY]).map(|(color, _)| rgb(color)).collect();
        for (index, &a) in all.iter().enumerate() {
            for &b in &all[..index] {
                assert!(distance(a, b) > 20.0, "{a:?} {b:?}");
            }
        }
        for (color, ink) in COLORS.into_iter().chain([GREY]) {
            let ink = if ink == "#fff" { [255.0; 3] } else { [0.0; 3] };
            assert!(contrast(rgb(color), ink) >= 4.5, "{color}");
            // The edge must contrast with the track or with the page, in light and dark mode.
            for (edge, track) in [("#59636e", "#eaeef2"), ("#9198a1", "#21262d")] {
                let told = contrast(rgb(color), rgb(track)).max(contrast(rgb(edge), rgb(track)));
                assert!(told >= 3.0, "{color} on {track}");
                assert!(
                    STYLE.contains(&format!(".track {{ fill: {track} }}"))
                        && STYLE.contains(&format!("stroke: {edge}"))
                );
            }
        }
    }

    type Rgb = [f64; 3];

    fn rgb(hex: &str) -> Rgb {
        [1, 3, 5].map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap().into())
    }

    fn linear(value: f64) -> f64 {
        let value = value / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    }

    /// The contrast ratio of WCAG 2.
    fn contrast(a: Rgb, b: Rgb) -> f64 {
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        a.max(b) / a.min(b)
    }

    fn luminance(rgb: Rgb) -> f64 {
        let [r, g, b] = rgb.map(linear);
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    /// The distance in CIELAB.
    fn distance(a: Rgb, b: Rgb) -> f64 {
        lab(a).iter().zip(lab(b)).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
    }

    fn lab(rgb: Rgb) -> [f64; 3] {
        let [r, g, b] = rgb.map(linear);
        let x = cube_root((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.950_47);
        let y = cube_root(luminance(rgb));
        let z = cube_root((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.088_83);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// The cube root, or a line in its place near 0, as CIELAB defines it.
    fn cube_root(t: f64) -> f64 {
        if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 }
    }
}
