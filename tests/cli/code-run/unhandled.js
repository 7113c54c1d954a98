Promise.reject(new Error("lost"));
return 1;
