use super::super::isa::Isa;
use super::*;

/// `f` on every instruction set, against `exact` in f64.
fn check(inputs: &[f32], tolerance: f64, f: impl Fn(Isa, &mut [f32]), exact: impl Fn(f64) -> f64) {
    for isa in Isa::available() {
        let mut got = inputs.to_vec();
        f(isa, &mut got);
        for (&x, &y) in inputs.iter().zip(&got) {
            let expected = exact(f64::from(x));
            let error = (f64::from(y) - expected).abs() / expected.abs().max(1.0);
            assert!(error <= tolerance, "{isa:?}: f({x}) = {y}, expected {expected}");
        }
    }
}

fn range(from: f32, to: f32, count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| from + (to - from) * i as f32 / count as f32)
        .collect()
}

#[test]
fn silu_is_exact_over_its_whole_range() {
    check(&range(-100.0, 100.0, 4001), 3e-7, silu, |x| {
        x / (1.0 + (-x).exp())
    });
}

#[test]
fn gelu_is_the_exact_form() {
    // A few values of the error function's form, computed with 50 digits.
    let known = [
        (-3.0, -0.004_049_693_929_593_98),
        (-1.0, -0.158_655_253_931_457),
        (-0.1, -0.046_017_216_272_297_1),
        (0.0, 0.0),
        (0.5, 0.345_731_230_637_008),
        (2.0, 1.954_499_736_103_64),
        (6.0, 5.999_999_994_080_48),
    ];
    let inputs: Vec<f32> = known.iter().map(|k| k.0).collect();
    let exact = |x: f64| {
        known
            .iter()
            .find(|k| f64::from(k.0) == x)
            .map_or(f64::NAN, |k| k.1)
    };
    check(&inputs, 5e-7, gelu, exact);
}

#[test]
fn snake_is_good_for_small_and_large_arguments() {
    for a in [0.1_f32, 1.0, 7.3, 150.0] {
        let snake = |isa, x: &mut [f32]| {
            let input = x.to_vec();
            snake(isa, x, &input, &[a], &[0.5]);
        };
        // The argument itself is rounded to f32, which the sine of a large one amplifies.
        let exact = |x: f64| x + f64::from(x as f32 * a).sin().powi(2) * 0.5;
        check(&range(-20.0, 20.0, 999), 2e-6, snake, exact);
    }
}

#[test]
fn snake_has_its_parameters_per_column_whatever_the_width() {
    for isa in Isa::available() {
        for width in [1, 3, 12, 16, 17, 24, 40, 48, 96, 255, 300] {
            let a: Vec<f32> = (0..width).map(|i| 0.3 + i as f32 / 40.0).collect();
            let b: Vec<f32> = (0..width).map(|i| 1.0 / (1.0 + i as f32)).collect();
            let x = range(-3.0, 3.0, 7 * width);
            let mut out = vec![0.0; x.len()];
            let mut in_place = x.clone();
            snake(isa, &mut out, &x, &a, &b);
            snake_in_place(isa, &mut in_place, &a, &b);
            assert_eq!(out, in_place, "{isa:?}, width {width}");
            for (i, (&x, &y)) in x.iter().zip(&out).enumerate() {
                let exact = x + (x * a[i % width]).sin().powi(2) * b[i % width];
                assert!(
                    (exact - y).abs() < 2e-6,
                    "{isa:?}, width {width}: f({x}) = {y}, not {exact}"
                );
            }
        }
    }
}

#[test]
fn norms_give_unit_scale() {
    for isa in Isa::available() {
        let x: Vec<f32> = (0..37).map(|i| (i * i % 11) as f32 - 4.0).collect();
        let ones = vec![1.0; 37];
        let zeros = vec![0.0; 37];
        let mut rms = vec![0.0; 37];
        rms_norm(isa, &mut rms, &x, &ones, 1e-6);
        let squares: f32 = rms.iter().map(|v| v * v).sum();
        assert!(
            (squares / 37.0 - 1.0).abs() < 1e-5,
            "{isa:?}: mean square {}",
            squares / 37.0
        );
        let mut layer = x.clone();
        layer_norm(isa, &mut layer, &ones, &zeros, 1e-6);
        let mean: f32 = layer.iter().sum::<f32>() / 37.0;
        let variance: f32 = layer.iter().map(|v| v * v).sum::<f32>() / 37.0;
        assert!(
            mean.abs() < 1e-6 && (variance - 1.0).abs() < 1e-5,
            "{isa:?}: {mean} {variance}"
        );
    }
}

#[test]
fn not_a_number_stays_one() {
    for isa in Isa::available() {
        let mut x = vec![f32::NAN; 20];
        silu(isa, &mut x);
        assert!(x.iter().all(|v| v.is_nan()), "{isa:?}");
    }
}
