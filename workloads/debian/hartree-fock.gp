\\ Restricted Hartree-Fock for a chain of hydrogen atoms, as a quantum-chemistry package does it:
\\ integrals over contracted Gaussians, then self-consistent field iterations.
\\
\\ Arguments, set by a file read before this one: atoms, an even number; spacing, in bohr;
\\ primitives, how many Gaussians make an orbital. Basis: STO-1G to STO-3G (Hehre, Stewart and
\\ Pople 1969), the 1s function of hydrogen with a scale factor of 1.24.
\\ Integrals: Szabo and Ostlund, Modern Quantum Chemistry, appendix A. The Boys function F0 by its
\\ series. Prints the energy after each iteration; fails if the last ones do not agree, or if the
\\ density does not hold every electron.

default(realprecision, 18);
exponents = [[0.41661], [1.309756, 0.233136], [3.42525091, 0.62391373, 0.16885540]][primitives];
weights = [[1.], [0.430129, 0.678914], [0.15432897, 0.53532814, 0.44463454]][primitives];
coefficients = vector(primitives, p, weights[p] * (2 * exponents[p] / Pi)^(3/4));

\\ The Boys function of order 0: integral of exp(-t x^2) for x from 0 to 1.
boys(t) =
{
  if (t > 32, return(sqrt(Pi / t) / 2));
  my(term = 1., sum = 1., k = 0);
  while (term > 1e-17 * sum, k++; term *= 2 * t / (2 * k + 1); sum += term);
  exp(-t) * sum;
}

\\ Pairs of primitives: exponent sum, centre, and prefactor of the product of two Gaussians.
pair(i, j) =
{
  my(list = List(), distance = spacing * (i - j));
  for (p = 1, primitives, for (q = 1, primitives,
    my(a = exponents[p], b = exponents[q], s = a + b);
    listput(list, [s, spacing * (a * i + b * j) / s,
      coefficients[p] * coefficients[q] * exp(-a * b / s * distance^2), a * b / s])));
  Vec(list);
}

pairs = matrix(atoms, atoms, i, j, if (i >= j, pair(i, j), 0));
pair_of(i, j) = if (i >= j, pairs[i, j], pairs[j, i]);

overlap(i, j) = my(list = pair_of(i, j)); sum(p = 1, #list, list[p][3] * (Pi / list[p][1])^(3/2));
kinetic(i, j) =
{
  my(list = pair_of(i, j), square = (spacing * (i - j))^2);
  sum(p = 1, #list, my([s, centre, factor, reduced] = list[p]);
    factor * reduced * (3 - 2 * reduced * square) * (Pi / s)^(3/2));
}
attraction(i, j) =
{
  my(list = pair_of(i, j));
  -sum(p = 1, #list, my([s, centre, factor] = list[p]);
    2 * Pi / s * factor * sum(c = 1, atoms, boys(s * (centre - spacing * c)^2)));
}
repulsion(i, j, k, l) =
{
  my(bra = pair_of(i, j), ket = pair_of(k, l), total = 0.);
  for (p = 1, #bra, my([s, left, f] = bra[p]);
    for (q = 1, #ket, my([t, right, g] = ket[q]);
      total += 2 * Pi^(5/2) / (s * t * sqrt(s + t)) * f * g
        * boys(s * t / (s + t) * (left - right)^2)));
  total;
}

index(i, j) = if (i >= j, i * (i - 1) / 2 + j, j * (j - 1) / 2 + i);
pairs_count = atoms * (atoms + 1) / 2;
integrals = vector(pairs_count * (pairs_count + 1) / 2);
{
  for (i = 1, atoms, for (j = 1, i, for (k = 1, i, for (l = 1, k,
    if (index(i, j) >= index(k, l),
      integrals[index(index(i, j), index(k, l))] = repulsion(i, j, k, l))))));
}
integral(i, j, k, l) = integrals[index(index(i, j), index(k, l))];

S = matrix(atoms, atoms, i, j, overlap(i, j));
H = matrix(atoms, atoms, i, j, kinetic(i, j) + attraction(i, j));
nuclear = sum(i = 2, atoms, sum(j = 1, i - 1, 1. / (spacing * (i - j))));
{
  my(roots = qfjacobi(S));
  X = roots[2] * matdiagonal(apply(root -> 1 / sqrt(root), roots[1])) * roots[2]~;
}

density(F) =
{
  my(solved = qfjacobi(X~ * F * X), order = vecsort(solved[1]~, , 1), C = X * solved[2]);
  matrix(atoms, atoms, i, j, 2 * sum(o = 1, atoms \ 2, C[i, order[o]] * C[j, order[o]]));
}
fock(D) =
{
  matrix(atoms, atoms, i, j, H[i, j] + sum(k = 1, atoms, sum(l = 1, atoms,
    D[k, l] * (integral(i, j, k, l) - integral(i, l, k, j) / 2))));
}

{
  my(D = density(H), before = 0., energy = 0., rounds = 0);
  until (abs(energy - before) < 1e-9,
    if (rounds++ > 60, error("the field is not consistent after 60 rounds"));
    my(F = fock(D)); before = energy;
    energy = nuclear + sum(i = 1, atoms, sum(j = 1, atoms, D[i, j] * (H[i, j] + F[i, j]))) / 2;
    printf("%2d  %.8f\n", rounds, energy);
    D = (D + 2 * density(F)) / 3);
  if (abs(trace(D * S) - atoms) > 1e-6, error("electrons have vanished"));
}
quit
