});
(async () => {
  return 1;
