\\ Least-squares refinement of a crystal structure against diffraction amplitudes, as quantum
\\ crystallography does it: structure factors, their derivatives, normal equations, a shift; again.
\\
\\ Arguments, set by a file read before this one: atoms in the cell; reflections along each axis;
\\ cycles of refinement.
\\ A structure is made, its amplitudes are computed, every position is displaced, and refinement
\\ has to find it again. Gauss-Newton on |F|^2; triclinic cell with unit axes; point atoms with a
\\ common Gaussian displacement. Prints the R factor of each cycle; fails if it does not get small.

default(realprecision, 18);
chance = 12345;
draw() = chance = (chance * 1103515245 + 12345) % 2^31; chance / 2.^31;

weight = vector(atoms, a, 6 + (5 * a) % 11);
truth = vector(3 * atoms, i, draw());
planes = List();
{
  for (h = 0, reflections, for (k = -reflections, reflections, for (l = -reflections, reflections,
    if (h > 0 || k > 0 || k == 0 && l > 0, listput(planes, [h, k, l])))));
  planes = Vec(planes);
}
attenuation(plane) = exp(-0.02 * (plane * plane~));

\\ The structure factor of one plane and its derivatives by every coordinate.
structure_factor(x, plane) =
{
  my(f = attenuation(plane), total = 0., terms = vector(atoms));
  for (a = 1, atoms,
    terms[a] = weight[a] * f
      * exp(2 * Pi * I * (plane[1] * x[3*a-2] + plane[2] * x[3*a-1] + plane[3] * x[3*a]));
    total += terms[a]);
  [total, terms];
}

observed = vector(#planes, r, norm(structure_factor(truth, planes[r])[1]));
total_observed = vecsum(apply(sqrt, observed));

\\ One cycle: the normal matrix and the right-hand side are summed plane by plane.
cycle(x) =
{
  my(unknowns = 3 * atoms, N = matrix(unknowns, unknowns), b = vectorv(unknowns), off = 0.);
  for (r = 1, #planes,
    my([F, terms] = structure_factor(x, planes[r]), weight_r = 1 / (1 + observed[r]), miss, gradient);
    miss = observed[r] - norm(F);
    off += abs(sqrt(observed[r]) - abs(F));
    gradient = vectorv(unknowns, i,
      -4 * Pi * planes[r][(i - 1) % 3 + 1] * imag(terms[(i + 2) \ 3] * conj(F)));
    for (i = 1, unknowns, my(g = weight_r * gradient[i]); b[i] += g * miss;
      for (j = 1, i, N[i, j] += g * gradient[j])));
  for (i = 1, unknowns, N[i, i] *= 1.0001; for (j = 1, i - 1, N[j, i] = N[i, j]));
  [off / total_observed, matsolve(N, b)];
}

{
  my(x = vector(3 * atoms, i, truth[i] + 0.01 * (draw() - 0.5)), R);
  for (c = 1, cycles, my([before, shift] = cycle(x)); R = before;
    printf("%2d  R = %.6f\n", c, R); x += shift~);
  if (cycles > 4 && R > 0.01, error("the structure is lost"));
}
quit
