// Toy problems of the literature: points [x, y, class], an estimator and its parameters.
// A small generator with fixed seeds makes them reproducible.

function generator(seed) {
  let state = seed >>> 0;
  const uniform = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state + 0.5) / 4294967296;
  };
  const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
  return { uniform, normal };
}

function cloud(random, count, x, y, spread, label) {
  return Array.from({ length: count }, () => [x + spread * random.normal(), y + spread * random.normal(), label]);
}

function oneOutlier() {
  const random = generator(7);
  return [...cloud(random, 14, -0.8, 0.1, 0.28, 0), ...cloud(random, 14, 0.8, -0.1, 0.28, 1), [-0.45, 0.15, 1]];
}

function overlapping() {
  const random = generator(3);
  return [...cloud(random, 24, -0.45, 0, 0.5, 0), ...cloud(random, 24, 0.45, 0, 0.5, 1)];
}

function clusters() {
  const random = generator(11);
  return [
    ...cloud(random, 9, -1.1, 0.9, 0.2, 0), ...cloud(random, 9, 0.9, -0.9, 0.2, 0),
    ...cloud(random, 9, -0.9, -0.9, 0.2, 1), ...cloud(random, 9, 1.0, 1.0, 0.2, 1),
    ...cloud(random, 9, 0, 0, 0.2, 2),
  ];
}

function exclusiveOr() {
  const random = generator(5);
  return [
    ...cloud(random, 10, -0.8, -0.8, 0.25, 0), ...cloud(random, 10, 0.8, 0.8, 0.25, 0),
    ...cloud(random, 10, -0.8, 0.8, 0.25, 1), ...cloud(random, 10, 0.8, -0.8, 0.25, 1),
  ];
}

function ordinalBands() {
  const random = generator(9);
  return Array.from({ length: 44 }, () => {
    const [x, y] = [3.4 * (random.uniform() - 0.5), 3.4 * (random.uniform() - 0.5)];
    const height = 0.8 * x + 0.5 * y + 0.25 * x * y + 0.15 * random.normal();
    return [x, y, height < -0.7 ? 0 : height < 0 ? 1 : height < 0.7 ? 2 : 3];
  });
}

function rings() {
  const random = generator(13);
  const ring = (count, radius, label) => Array.from({ length: count }, () => {
    const angle = 2 * Math.PI * random.uniform(), r = radius + 0.09 * random.normal();
    return [r * Math.cos(angle), r * Math.sin(angle), label];
  });
  return [...ring(16, 0.5, 0), ...ring(30, 1.25, 1)];
}

export const PRESETS = [
  { name: "one outlier", points: oneOutlier(), machine: "SVC", params: { kernel: "linear", C: 100 } },
  { name: "overlapping classes", points: overlapping(), machine: "LOOSVC", params: { gamma: 1.5 } },
  { name: "clusters", points: clusters(), machine: "SVC", params: { C: 10 } },
  { name: "exclusive or", points: exclusiveOr(), machine: "SVC", params: { C: 10 } },
  { name: "rings", points: rings(), machine: "MeanFieldGPClassifier", params: { input_noise: 0.1 } },
  { name: "ordered bands", points: ordinalBands(), machine: "OrdinalSVC", params: { C: 10, gamma: 0.5 } },
];
